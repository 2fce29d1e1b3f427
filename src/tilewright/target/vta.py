"""The accelerator VTA beside a host processor, which runs what the accelerator does not take.

Target("vta")
Target("vta -config=FILE")                          figures from a JSON file, {"LOG_BLOCK": 5, …}
Target("vta -log_block=5 -threads=1 -driver=checked")
Target("vta -host=riscv32-imac")                    beside a board's processor: models are written as C
Target("vta -runs=8")                               a call makes eight runs of the model, which overlap
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tilewright.errors import TargetError
from tilewright.target.microcontrollers import MICROCONTROLLERS, WITHOUT_SYSTEM
from tilewright.target.target import Target, made, spelled

#: Options beside the figures: virtual threads, the kind of driver that runs programs, a board's processor, and how many
#: runs of the model one call makes.
_DEFAULTS = {"threads": "2", "driver": "native", "host": "", "runs": "1"}
#: A plan has the calls of all runs one by one.
_MOST_RUNS = 256
_FIGURE = re.compile(r"log_[a-z_]+")


@spelled
class VtaTarget(Target):
    """VTA: `figures` are those of its configuration that differ from the default, by the names in their files.

    `threads` is the number of virtual threads, `driver` the kind of driver, `processor` what is beside it. A call makes
    `runs` runs of a model, on inputs of their own: the processor works for one while the accelerator does for another.
    """

    __slots__ = ("driver", "figures", "processor", "runs", "threads")
    KINDS = ("vta",)
    figures: tuple[tuple[str, int], ...]
    threads: int
    driver: str
    processor: Target
    runs: int

    @classmethod
    def parse(cls, spec: str) -> VtaTarget:
        """The accelerator that `spec` spells. Raises `TargetError` for what it does not know."""
        kind, *words = spec.split()
        figures: dict[str, int] = {}
        options = dict(_DEFAULTS)
        for word in words:
            name, equals, text = word.lstrip("-").partition("=")
            if not word.startswith("-") or not equals or not text:
                raise TargetError(f"target {spec!r}: {word!r} is no option; write -name=value")
            if name == "config":
                figures.update(_read(spec, text))
            elif name in options:
                options[name] = text
            elif _FIGURE.fullmatch(name.lower()):
                figures[name.upper()] = _number(spec, word, text)
            else:
                known = ", ".join(f"-{n}=" for n in ("config", *options, "log_…"))
                raise TargetError(f"target {spec!r}: unknown option {word!r}; known: {known}")
        if options["threads"] not in ("1", "2"):
            raise TargetError(f"target {spec!r}: -threads= is 1 or 2, the virtual threads of a layer")
        if options["host"] and options["host"] not in MICROCONTROLLERS:
            known = ", ".join(MICROCONTROLLERS)
            raise TargetError(
                f"target {spec!r}: -host= is a board's processor, one of {known}, or this machine without it"
            )
        more = [f"-{name}={value}" for name, value in options.items() if value != _DEFAULTS[name]]
        spelling = " ".join([kind, *(f"-{name.lower()}={value}" for name, value in sorted(figures.items())), *more])
        fixed: dict[str, Any] = {"figures": tuple(sorted(figures.items())), "threads": int(options["threads"])}
        if not options["runs"].isdecimal() or not 1 <= int(options["runs"]) <= _MOST_RUNS:
            raise TargetError(f"target {spec!r}: -runs= is a number from 1 to {_MOST_RUNS}")
        fixed["runs"] = int(options["runs"])
        processor = Target(f"c -mcpu={options['host']}" if options["host"] else "cpu")
        return made(cls, spelling=spelling, kind=kind, driver=options["driver"], processor=processor, **fixed)

    @property
    def backend(self) -> str:
        """By the processor: this machine's runs programs from here, a board's from C."""
        return "vta" if self.is_host else "vta board"

    @property
    def architecture(self) -> str:
        """That of the processor."""
        return self.processor.architecture

    @property
    def is_host(self) -> bool:
        """True where the accelerator is reached from this process."""
        return self.processor.architecture not in WITHOUT_SYSTEM


def _read(spec: str, path: str) -> dict[str, int]:
    """The figures in a file."""
    try:
        data = json.loads(Path(path).read_text())
    except OSError as error:
        raise TargetError(f"target {spec!r}: cannot read the configuration {path}: {error.strerror}") from error
    except ValueError as error:
        raise TargetError(f"target {spec!r}: the configuration {path} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise TargetError(f'target {spec!r}: the configuration {path} is not a JSON object such as {{"LOG_BLOCK": 4}}')
    return {str(name): _number(spec, f"{name} in {path}", str(value)) for name, value in data.items()}


def _number(spec: str, what: str, text: str) -> int:
    if not text.isdecimal():
        raise TargetError(f"target {spec!r}: {what} is {text!r}, not a whole number")
    return int(text)
