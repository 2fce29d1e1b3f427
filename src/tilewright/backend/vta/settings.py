"""The accelerator that a graph is compiled for."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tilewright.errors import UnsupportedError
from tilewright.target import VtaTarget
from tilewright.vta.config import Config

_BYTES = 3


@dataclass(frozen=True)
class Settings:
    """Configuration, virtual threads, the kind of driver that runs the programs, and runs of a call."""

    config: Config
    threads: int = 2
    driver: str = "native"
    runs: int = 1

    @classmethod
    def of(cls, target: VtaTarget) -> Settings:
        """The settings of a target. Raises `UserError` for an invalid configuration, or operands that are not int8."""
        config = Config.from_json(json.dumps(dict(target.figures)))
        if (config.log_inp_width, config.log_wgt_width) != (_BYTES, _BYTES):
            raise UnsupportedError(
                f"networks run in int8, and {config.name} has inputs of {1 << config.log_inp_width} and weights of "
                f"{1 << config.log_wgt_width} bits; take LOG_INP_WIDTH = LOG_WGT_WIDTH = 3"
            )
        return cls(config, target.threads, target.driver, target.runs)
