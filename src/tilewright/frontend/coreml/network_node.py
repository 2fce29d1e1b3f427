"""One layer of a Core ML network as its converter sees it, its weights, and the table of converters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tilewright.frontend.converters import Converter, Converters
from tilewright.frontend.coreml.node import converts
from tilewright.frontend.graph_node import GraphNode
from tilewright.frontend.idioms import cast, constant, reshape
from tilewright.frontend.messages import Record
from tilewright.frontend.signature import apply
from tilewright.relay.ir.expr import Expr, Function, GlobalVar

#: The one table of converters of the layers of neural networks, by the names of their parameters in the specification.
layers = Converters("coreml layer")


class Nested(Protocol):
    """The networks within a layer, which read and write the values of the network around it."""

    #: The names of the values that they write.
    names: list[str]
    #: Functions of the module beside `main`, to which control flow adds.
    functions: dict[GlobalVar, Function]

    def run(self, field: str, values: Mapping[str, Expr]) -> dict[str, Expr]:
        """Those of `names` that have a value after the network in `field`; `values` replaces some before it."""

    def before(self) -> dict[str, Expr]:
        """The values that there are before the layer, by name."""


class LayerNode(GraphNode):
    """`p` are the layer's parameters; `results` is the number of its values; `nested` are the networks within."""

    def __init__(self, kind: str, name: str, inputs: Sequence[Any], params: Record, results: int) -> None:
        super().__init__(kind, name, inputs)
        self.p = params
        self.results = results
        self.nested: Nested | None = None
        #: The fields that hold attributes of other names, or functions of the node (`operation`).
        self.fields: Mapping[str, Any] = {}

    def attribute(self, name: str) -> Any:
        """As `NodeInputs`: the parameter `keepDims` is the attribute `keep_dims`; None for an empty list."""
        first, *words = name.split("_")
        field = self.fields.get(name, first + "".join(word.capitalize() for word in words))
        if callable(field):
            return field(self)
        if field not in self.p.schema.fields(self.p.kind):
            return None
        value = getattr(self.p, field)
        return value if isinstance(value, str | int | float) else list(value) or None

    def weights(self, name: str, shape: Sequence[int]) -> np.ndarray:
        """The numbers of a field of weights, float32 in `shape`, in whatever form the file has them."""
        found = getattr(self.p, name) if isinstance(name, str) else name
        return weights(self, found, name, shape)

    def vector(self, name: str, count: int, rank: int = 3) -> Expr:
        """Weights of one number a channel, as they broadcast to […, C, H, W]; of a single number, all the same."""
        found = getattr(self.p, name)
        stored = len(found.floatValue) if found.has("floatValue") else len(found.float16Value) // 2
        data = weights(self, found, name, (1,) if stored == 1 else (count,))
        return reshape(constant(data), (*data.shape, *(1,) * (rank - 1)))

    def folded(self, value: Expr | None = None, kept: int = 3) -> tuple[Expr, tuple[Any, ...]]:
        """A value with its axes before the last `kept` made one, and those axes."""
        value = self[0] if value is None else value
        shape = self.shape(value)
        if len(shape) < kept:
            self.bad(f"it takes at least {kept} axes, not {list(shape)}")
        lead = shape[: len(shape) - kept]
        return reshape(value, (int(np.prod(lead, dtype=object)), *shape[len(lead) :])), lead

    def unfolded(self, value: Expr, lead: Sequence[Any]) -> Expr:
        """Back from `folded`."""
        return reshape(value, (*lead, *self.shape(value)[1:]))


def written(params: Record) -> list[str]:
    """The names of the values that the networks in the parameters of a layer write."""
    return _names_within(params, "output")


def read_within(params: Record) -> list[str]:
    """The names of the values that they read."""
    return _names_within(params, "input")


def _names_within(params: Record, side: str) -> list[str]:
    found: list[str] = []
    networks = [getattr(params, field) for field in params.given() if field.endswith(("Network", "Branch"))]
    for layer in [layer for network in networks for layer in network.layers]:
        found += getattr(layer, side)
        for kind in ("branch", "loop"):
            found += _names_within(getattr(layer, kind), side) if layer.has(kind) else []
    return list(dict.fromkeys(found))


def operation(name: str, **fields: Any) -> Converter:
    """The converter of the operation `name` of ML programs for a layer, whose results are floats.

    `fields` are the parameters of the layer that the operation's arguments are, where their names differ, or functions
    of the node.
    """

    def convert(node: LayerNode) -> list[Expr]:
        node.fields, converter = fields, converts.find(name)
        assert converter is not None
        made = apply(converter, node)
        return [cast(value, "float32") for value in ([made] if isinstance(made, Expr) else made)]

    return convert


def weights(node: GraphNode, field: Record, name: str, shape: Sequence[int]) -> np.ndarray:
    """The numbers of `WeightParams` as float32: of 32 or 16 bits, or fewer by a scale or a table."""
    shape = tuple(int(extent) for extent in shape)
    count = int(np.prod(shape, dtype=object))
    if field.has("floatValue"):
        data = np.asarray(field.floatValue, np.float32)
    elif field.has("float16Value"):
        raw = bytes(field.float16Value)
        data = np.frombuffer(raw[: len(raw) // 2 * 2], np.float16).astype(np.float32)
    elif field.has("rawValue"):
        data = _dequantized(node, field, name, shape, count)
    else:
        node.bad(f"its {name} has no numbers")
    if data.size != count:
        node.bad(f"its {name} has {data.size} numbers for the shape {list(shape)}")
    return data.reshape(shape)


def _dequantized(node: GraphNode, field: Record, name: str, shape: tuple[int, ...], count: int) -> np.ndarray:
    bits = int(field.quantization.numberOfBits)
    raw = np.frombuffer(bytes(field.rawValue), np.uint8)
    if not 1 <= bits <= 8 or raw.size * 8 < count * bits:
        node.bad(f"its {name} has {raw.size} bytes for {count} numbers of {bits} bits")
    digits = np.unpackbits(raw)[: count * bits].reshape(count, bits).astype(np.int64)
    codes = digits @ (1 << np.arange(bits)[::-1])
    if field.quantization.has("lookupTableQuantization"):
        table = np.asarray(field.quantization.lookupTableQuantization.floatValue, np.float32)
        if table.size < 1 << bits:
            node.bad(f"its {name} has a table of {table.size} numbers for {bits} bits")
        return table[codes]
    linear = field.quantization.linearQuantization
    scale, bias = np.asarray(linear.scale, np.float32), np.asarray(linear.bias, np.float32)
    bias = bias if bias.size else np.zeros(1, np.float32)
    if scale.size not in (1, shape[0]) or bias.size not in (1, shape[0]):
        node.bad(f"its {name} has {scale.size} scales and {bias.size} biases for {shape[0]} rows")
    return (codes.reshape(shape[0], -1) * scale[:, None] + bias[:, None]).astype(np.float32)
