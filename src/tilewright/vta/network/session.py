"""A network on an accelerator: its DRAM filled once, then operands brought in as tiles and results taken out."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewright.vta.config import Config
from tilewright.vta.dram import Dram
from tilewright.vta.driver import open_driver
from tilewright.vta.isa import Isa
from tilewright.vta.schedule.layout import Array, pack_image, patches, unpack_image


class Session:
    """The plan and the image of a `network.Compiled`, on a driver of the kind `kind`. `counters` sums up all runs."""

    def __init__(self, plan: Mapping[str, Any], image: Array, kind: str = "native") -> None:
        self.plan, self.config = plan, Config.from_json(json.dumps(plan["config"]))
        self.isa = Isa(self.config)
        dram = Dram(self.isa, plan["dram"])
        dram.data[plan["base"] :] = image
        self.driver, self._lock = open_driver(kind, self.isa, dram), threading.Lock()

    @property
    def counters(self) -> Counter[str]:
        """The driver's counters so far."""
        return self.driver.counters

    def run(self, operands: Sequence[Array]) -> list[Array]:
        """The outputs, int8 or int32 [images, channels, rows, columns], one run at a time."""
        with self._lock:
            for known in self.plan["inputs"]:
                image = np.asarray(operands[known["operand"]])
                image = image.reshape(*image.shape, *(1,) * (4 - image.ndim))
                if known["patches"] is not None:
                    image = patches(image, **known["patches"])
                tiles = pack_image(image, self.config)
                self.driver.dram.view("INP", known["address"], len(tiles))[...] = tiles
            self.driver.run(*self.plan["program"])
            return [self._output(known) for known in self.plan["outputs"]]

    def _output(self, known: Mapping[str, Any]) -> Array:
        n, c, h, w = known["shape"]
        blocks = -(-n // self.config.batch) * -(-c // self.config.block)
        size, planes = blocks * h * w, known["planes"]
        tiles = self.driver.dram.view("OUT", known["address"], size * planes)
        images = [unpack_image(tiles[k * size : (k + 1) * size], (n, c, h, w), self.config) for k in range(planes)]
        return _joined(images).reshape(known.get("result", known["shape"]))


def _joined(planes: Sequence[Array]) -> Array:
    """Numbers of their bytes, the highest of which has the sign; int8 where there is one."""
    if len(planes) == 1:
        return planes[0]
    joined = planes[-1].astype(np.int32)
    for plane in reversed(planes[:-1]):
        joined = joined << 8 | plane.view(np.uint8)
    return joined
