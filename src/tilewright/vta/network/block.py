"""The block of a program: the part of DRAM that its tensors lie in, `plan["base"]` bytes, which each run has anew.

    block = np.zeros(plan["base"], np.uint8)
    pack_operands(plan, operands, block)          images as tiles, or the patches that a first convolution reads
    …                                             the accelerator runs the program
    results = unpack_results(plan, block)

What does not change from run to run, weights, micro-ops and instructions, lies behind it (`network.Compiled.image`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.vta.config import Config
from tilewright.vta.isa import Isa
from tilewright.vta.schedule.layout import Array, blocks_of, pack_image, patches, unpack_image

Plan = Mapping[str, Any]


@lru_cache(maxsize=64)
def _config(text: str) -> Config:
    return Config.from_json(text)


def config_of(plan: Plan) -> Config:
    """The configuration of the accelerator that a plan is for."""
    return _config(json.dumps(plan["config"]))


def tiles_of(shape: Sequence[int], config: Config) -> int:
    """Tiles that an image of a shape has."""
    n, c, h, w = shape
    return -(-n // config.batch) * blocks_of(c, config) * h * w


def spans(plan: Plan) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """First byte and bytes, in the block, of each operand and of each result."""
    config, size = config_of(plan), Isa(config_of(plan)).memories["INP"].element_bytes
    operands = [(known["address"] * size, tiles_of(known["shape"], config) * size) for known in plan["inputs"]]
    results = [
        (known["address"] * size, tiles_of(known["shape"], config) * known["planes"] * size)
        for known in plan["outputs"]
    ]
    return operands, results


def pack_operands(plan: Plan, operands: Sequence[Array], block: Array) -> None:
    """Bring operands of a program, int8, into its block."""
    config = config_of(plan)
    for known, (first, size) in zip(plan["inputs"], spans(plan)[0]):
        image = np.asarray(operands[known["operand"]]).reshape(known["source"])
        image = image.reshape(*image.shape, *(1,) * (4 - image.ndim))
        if known["patches"] is not None:
            image = patches(image, **known["patches"])
        block[first : first + size] = pack_image(image, config).reshape(-1).view(np.uint8)


def unpack_results(plan: Plan, block: Array) -> list[Array]:
    """The results of a program, int8 or int32, out of its block."""
    return [_result(plan, known, block[at : at + size]) for known, (at, size) in zip(plan["outputs"], spans(plan)[1])]


def _result(plan: Plan, known: Mapping[str, Any], data: Array) -> Array:
    config, planes = config_of(plan), known["planes"]
    tiles = data.view(np.int8).reshape(planes, -1, config.batch, config.block)
    images = [unpack_image(plane, tuple(known["shape"]), config) for plane in tiles]
    return _joined(images).reshape(known.get("result", known["shape"]))


def _joined(planes: Sequence[Array]) -> Array:
    """Numbers of their bytes, the highest of which has the sign; int8 where there is one."""
    if len(planes) == 1:
        return planes[0]
    joined = planes[-1].astype(np.int32)
    for plane in reversed(planes[:-1]):
        joined = joined << 8 | plane.view(np.uint8)
    return joined


def moved(plan: Plan, block: Array, other: Array, results: bool) -> None:
    """Copy the operands of a program, or its results, from one memory of its block to another."""
    for first, size in spans(plan)[results]:
        other[first : first + size] = block[first : first + size]
