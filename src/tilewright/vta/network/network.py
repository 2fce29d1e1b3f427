"""Layers one after another as one program, with the positions of all tensors in DRAM.

    network = Network(Config())
    x = network.image((1, 64, 56, 56), operand=0)
    y = network.conv2d(x, weight, [Step("ADD", bias), Step("SHR", 7), Step("MAX", 0), Step("MIN", 127)], padding=…)
    compiled = network.build([y])

Tensors are int8, [images, channels, rows, columns]; `build` assigns each its address for as long as it is read.
`Compiled` holds plain data and one array, and is what `session.Session` runs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tilewright.vta.commands import Commands
from tilewright.vta.config import Config
from tilewright.vta.dram import Dram, largest_element
from tilewright.vta.hardware import Hardware
from tilewright.vta.isa import Isa
from tilewright.vta.schedule import alu, choice, conv2d
from tilewright.vta.schedule.epilogue import Epilogue, Step
from tilewright.vta.schedule.geometry import Conv2D
from tilewright.vta.schedule.layout import Array, blocks_of, group_blocks, pack_weights

_PAGES = 1 << 31
_ONCE = (1, 1)
_NO_PAD = (0, 0, 0, 0)


@dataclass(eq=False)
class Tensor:
    """A value between layers; `address` is its first element, once it has a position.

    Numbers of more than a byte are `planes` images, one of each byte, the lowest first.
    """

    shape: tuple[int, int, int, int]
    address: int = -1
    planes: int = 1


@dataclass(frozen=True)
class Patches:
    """The host's first transformation of an operand: `layout.patches`, so that its convolution becomes one of 1×1."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]


@dataclass(eq=False)
class _Input:
    tensor: Tensor
    operand: int
    patches: Patches | None
    source: tuple[int, ...]


@dataclass(eq=False)
class _Layer:
    """A layer: what it reads and writes, and what records it when all have positions.

    That returns the tiles as text, and an estimate of the cycles.
    """

    name: str
    reads: tuple[Tensor, ...]
    writes: Tensor
    record: Callable[[Commands], tuple[str, int]]


@dataclass(frozen=True)
class Compiled:
    """A network for the accelerator: `plan` is plain data, `image` the bytes of DRAM from byte `plan["base"]` on."""

    plan: dict[str, Any]
    image: Array


@dataclass
class Network:
    """A network under construction, for tiles in `threads` virtual threads, its tilings chosen for `hardware`."""

    config: Config = field(default_factory=Config)
    threads: int = 2
    hardware: Hardware = field(default_factory=Hardware)

    def __post_init__(self) -> None:
        self.isa = Isa(self.config)
        self._inputs: list[_Input] = []
        self.layers: list[_Layer] = []

    # --------------------------------------------------------------------------------------------------- layers
    def image(
        self, shape: Sequence[int], operand: int, patches: Patches | None = None, source: Sequence[int] | None = None
    ) -> Tensor:
        """An operand of the caller, of `shape` after `patches`, and of the shape `source` before."""
        for known in self._inputs:
            if (known.operand, known.patches) == (operand, patches):
                return known.tensor
        tensor = Tensor(_four(shape))
        self._inputs.append(_Input(tensor, operand, patches, tuple(source or shape)))
        return tensor

    def conv2d(
        self,
        data: Tensor,
        weight: Array,
        steps: Sequence[Step],
        strides: tuple[int, int] = _ONCE,
        padding: tuple[int, int, int, int] = _NO_PAD,
        dilation: tuple[int, int] = _ONCE,
        groups: int = 1,
        name: str = "conv2d",
        planes: int = 1,
    ) -> Tensor:
        """A convolution of int8 by `weight` [outputs, inputs of a group, rows, columns]; `steps` bring it to int8.

        Or to numbers of so many bytes as there are `planes`, for the host.
        """
        layer = convolution(self.config, data.shape, weight.shape, strides, padding, dilation, groups)
        out = Tensor((data.shape[0], weight.shape[0], layer.out_height, layer.out_width), planes=planes)

        def record(commands: Commands) -> tuple[str, int]:
            epilogue = Epilogue.of(self.isa, commands.dram, layer.groups * layer.outputs, steps, largest_sums(weight))
            room = epilogue.reserved, epilogue.most_outputs()
            tuned = choice.tune(self.config, self.hardware, layer, self.threads, *room)
            at = conv2d.Addresses(
                data.address, commands.dram.put("WGT", pack_weights(weight, groups, self.config)), out.address
            )
            conv2d.conv2d(commands, layer, at, epilogue, tuned.tiling, planes)
            return f"{layer} {tuned.tiling}, about {tuned.cycles} cycles", tuned.cycles

        self.layers.append(_Layer(name, (data,), out, record))
        return out

    def add(
        self, left: Tensor, right: Tensor, shifts: tuple[int, int], steps: Sequence[Step], name: str = "add"
    ) -> Tensor:
        """The sum of two tensors, each shifted to the left first; `steps` of immediates bring it to int8."""
        out = Tensor(left.shape)

        def record(commands: Commands) -> tuple[str, int]:
            epilogue = Epilogue.of(self.isa, commands.dram, 1, steps)
            total = alu.Sum(self._elements(out), left.address, right.address, out.address, shifts)
            alu.add(commands, total, epilogue, self.threads)
            return str(total), self._passes(out, 3)

        self.layers.append(_Layer(name, (left, right), out, record))
        return out

    def pool(self, data: Tensor, layer: alu.Pool, steps: Sequence[Step], name: str = "pool") -> Tensor:
        """Pooling; `layer.blocks` are those of all images."""
        out = Tensor((data.shape[0], data.shape[1], layer.out_height, layer.out_width))

        def record(commands: Commands) -> tuple[str, int]:
            images = layer.blocks // blocks_of(data.shape[1], self.config)
            epilogue = Epilogue.of(self.isa, commands.dram, layer.blocks, [self._for_all(s, images) for s in steps])
            tiling = alu.pool_tiling(self.config, layer, epilogue.reserved, self.threads)
            assert tiling is not None, "who takes a pooling asks first"
            alu.pool(commands, layer, data.address, out.address, epilogue, tiling, self.threads)
            return f"{layer} blocks, rows of a tile: {tiling}", self._passes(data, 2) + self._passes(out, 2)

        self.layers.append(_Layer(name, (data,), out, record))
        return out

    def _for_all(self, step: Step, images: int) -> Step:
        """A vector of channels once for each image."""
        if isinstance(step.right, int):
            return step
        missing = -step.right.size % self.config.block
        return Step(step.op, np.tile(np.pad(step.right, (0, missing)), images))

    # -------------------------------------------------------------------------------------------------- program
    def build(self, outputs: Sequence[Tensor]) -> Compiled:
        """Addresses and program. Raises `UnsupportedError` where a layer does not fit on the chip."""
        base = self._position(outputs)
        dram = Dram(self.isa, _PAGES - base)
        dram.allocate(base)
        commands, layers = Commands(self.isa, dram), []
        for layer in self.layers:
            first = commands.count
            text, cycles = layer.record(commands)
            about = {"cycles": cycles, "first": first, "count": commands.count - first}
            layers.append({"name": layer.name, "layer": text, **about})
        address, count = commands.finish()
        plan = {
            "config": json.loads(self.config.to_json()),
            "threads": self.threads,
            "base": base,
            "dram": dram.most,
            "program": [address, count],
            "layers": layers,
            "inputs": [self._input(known) for known in self._inputs],
            "outputs": [
                {"shape": list(tensor.shape), "address": tensor.address, "planes": tensor.planes} for tensor in outputs
            ],
        }
        return Compiled(plan, dram.data[base : dram.most].copy())

    @staticmethod
    def _input(known: _Input) -> dict[str, Any]:
        how = None if known.patches is None else {name: list(value) for name, value in asdict(known.patches).items()}
        return {
            "operand": known.operand,
            "source": list(known.source),
            "shape": list(known.tensor.shape),
            "address": known.tensor.address,
            "patches": how,
        }

    def _passes(self, tensor: Tensor, passes: int) -> int:
        """Cycles of so many loads or stores of a tensor, which layers without products consist of."""
        nbytes = self._elements(tensor) * self.isa.memories["INP"].element_bytes
        return passes * nbytes // self.hardware.port_bytes

    def _elements(self, tensor: Tensor) -> int:
        """Tiles that a tensor has."""
        n, c, h, w = tensor.shape
        return -(-n // self.config.batch) * blocks_of(c, self.config) * h * w

    def _position(self, outputs: Sequence[Tensor]) -> int:
        """Assign addresses to all tensors; the bytes that they need together."""
        arena, size = Dram(self.isa, _PAGES), self.isa.memories["INP"].element_bytes
        last = {tensor: index for index, layer in enumerate(self.layers) for tensor in layer.reads}
        last |= dict.fromkeys(outputs, len(self.layers))

        def take(tensor: Tensor) -> None:
            tensor.address = arena.reserve("INP", self._elements(tensor) * tensor.planes)

        for known in self._inputs:
            take(known.tensor)
        for index, layer in enumerate(self.layers):
            take(layer.writes)
            for tensor in dict.fromkeys((*layer.reads, layer.writes)):
                if last.get(tensor, index) == index:
                    arena.release(tensor.address * size)
        return math.ceil(arena.most / largest_element(self.isa)) * largest_element(self.isa)


def convolution(
    config: Config,
    image: Sequence[int],
    weight: Sequence[int],
    strides: tuple[int, int] = _ONCE,
    padding: tuple[int, int, int, int] = _NO_PAD,
    dilation: tuple[int, int] = _ONCE,
    groups: int = 1,
) -> Conv2D:
    """The geometry of a convolution in tiles; shapes as for `Network.conv2d`."""
    left, outputs, inputs = group_blocks(groups, weight[1], weight[0] // groups, config)
    images = -(-image[0] // config.batch)
    kernel = (weight[2], weight[3])
    return Conv2D(left, inputs, outputs, image[2], image[3], kernel, strides, padding, dilation, images)


def largest_sums(weight: Array) -> Array:
    """The largest magnitude of the sums of each output channel, by its weights, whatever the int8 image."""
    return abs(weight.reshape(weight.shape[0], -1).astype(np.int64)).sum(axis=1) << 7


def _four(shape: Sequence[int]) -> tuple[int, int, int, int]:
    n, c, *rest = shape
    h, w = rest or (1, 1)
    return n, c, h, w
