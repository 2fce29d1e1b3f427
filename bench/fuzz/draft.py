"""A graph being grown: values whose contents are known, leaves drawn as they are needed, nodes that a reference ran.

Each node is evaluated as it is added, so whoever draws the next one knows sizes and elements: which indices are in
range, which numbers a cast can hold. A call that ONNX's checker, its inference or all references refuse is dropped.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import defs, helper, numpy_helper

from bench.fuzz.references import ReferenceError_, one_node_model, run_node, value_type
from bench.fuzz.values import ELEMENTS, PLAIN, Array, draw_array, element_of, type_text

V = TypeVar("V")
Shape = tuple[int, ...]

#: No value of a graph has more elements.
LARGEST = 3000
_TEXTS = {type_text(element): element for element in ELEMENTS}


class Rejected(Exception):
    """This call cannot be drawn: there is nothing to call it on, or it is not a valid one."""


@dataclass(frozen=True)
class Value:
    """A value of the graph and what it is when the model is fed as it will be."""

    name: str
    contents: Any
    element: int
    kind: str = "tensor"
    undefined: bool = False

    @property
    def array(self) -> Array:
        """The elements of a tensor."""
        return self.contents

    @property
    def shape(self) -> Shape:
        """The sizes of a tensor."""
        return self.contents.shape

    @property
    def rank(self) -> int:
        """The number of axes of a tensor."""
        return self.contents.ndim


class Draft:
    """A graph that grows; `parent` is that of the graph whose body this one is."""

    def __init__(self, seed: int, opset: int, parent: Draft | None = None) -> None:
        self.rng = parent.rng if parent else random.Random(seed)
        self.opset = opset
        self.domains = parent.domains if parent else {}
        self.parent = parent
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[Value] = []
        self.constants: list[Value] = []
        self.values: list[Value] = list(parent.values) if parent else []
        self.rejected: Counter[str] = parent.rejected if parent else Counter()
        self.names: list[int] = parent.names if parent else [0]
        self.constant_share = self.rng.choice([0.2, 0.5, 0.8])
        self.empty_share = parent.empty_share if parent else self.rng.choice([0.02, 0.02, 0.02, 0.15])

    # ----------------------------------------------------------------- chance

    def chance(self, probability: float) -> bool:
        """True that often."""
        return self.rng.random() < probability

    def choice(self, options: Iterable[V]) -> V:
        """One of the options; `Rejected` where there is none."""
        found = list(options)
        if not found:
            raise Rejected("nothing to choose from")
        return self.rng.choice(found)

    def integer(self, least: int, greatest: int) -> int:
        """An integer between both, which are included."""
        if greatest < least:
            raise Rejected("an empty range")
        return self.rng.randint(least, greatest)

    def shape(self, rank: int | None = None) -> Shape:
        """Sizes as they come: mostly small, often 1, at times 0, in some graphs often 0."""
        rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4, 5]) if rank is None else rank
        limit = 9 if rank < 4 else 4
        return tuple(self._size(limit) for _ in range(rank))

    def _size(self, limit: int) -> int:
        return 0 if self.chance(self.empty_share) else 1 if self.chance(0.2) else self.integer(2, limit)

    def axis(self, rank: int) -> int:
        """An axis of a tensor, counted from either end."""
        if not rank:
            raise Rejected("a scalar has no axes")
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int, count: int | None = None) -> list[int]:
        """Some axes of a tensor, each once, counted from either end."""
        count = self.integer(0, rank) if count is None else count
        if count > rank:
            raise Rejected("too few axes")
        return [axis - rank if self.chance(0.3) else axis for axis in self.rng.sample(range(rank), count)]

    # ----------------------------------------------------------------- schemas

    def schema(self, operator: str, domain: str = "") -> defs.OpSchema:
        """The operator as the opset of the graph has it."""
        return defs.get_schema(operator, self.domains[domain] if domain else self.opset, domain)

    def since(self, operator: str) -> int:
        """The opset from which the operator is as it is here."""
        return self.schema(operator).since_version

    def takes(self, operator: str, name: str) -> bool:
        """True if the operator has an input or an attribute of this name, at this opset."""
        schema = self.schema(operator)
        return name in schema.attributes or any(entry.name == name for entry in schema.inputs)

    def elements(self, operator: str, index: int = 0, domain: str = "") -> list[int]:
        """The element types of tensors that the operator takes as its input number `index`."""
        types = self.schema(operator, domain).inputs[index].types
        return [element for text, element in _TEXTS.items() if text in types]

    def element(self, operator: str, index: int = 0, only: Sequence[int] | None = None, domain: str = "") -> int:
        """One of `elements`, and of `only`: float32 as often as all others."""
        found = [e for e in self.elements(operator, index, domain) if only is None or e in only]
        return T.FLOAT if T.FLOAT in found and self.chance(0.4) else self.choice(found)

    # ----------------------------------------------------------------- values

    def name(self) -> str:
        """A new name."""
        self.names[0] += 1
        return f"v{self.names[0]}"

    def leaf(self, element: int, shape: Shape, kind: str | None = None) -> Value:
        """A new input or constant."""
        return self.known(draw_array(self.rng, element, shape, kind), self.constant_share)

    def constant(self, array: Any, element: int = 0) -> Value:
        """A new initializer, or a node `Constant`."""
        array = np.asarray(array)
        value = Value(self.name(), array, element or element_of(array))
        if self.chance(0.2) and not self.parent:
            tensor = _tensor(value)
            self.nodes.append(helper.make_node("Constant", [], [value.name], value=tensor))
        else:
            self.constants.append(value)
        self.values.append(value)
        return value

    def known(self, array: Any, constant_share: float = 0.8) -> Value:
        """These elements, as a constant or as an input; within a body as a constant."""
        array = np.asarray(array)
        if array.size > LARGEST:
            raise Rejected("too large")
        if self.parent or self.chance(constant_share):
            return self.constant(array)
        value = Value(self.name(), array, element_of(array))
        if value.element not in PLAIN and self.chance(0.5):
            return self.constant(array)
        self.inputs.append(value)
        self.values.append(value)
        return value

    def tensors(self, elements: Sequence[int], fits: Callable[[Value], bool] = lambda value: True) -> list[Value]:
        """The tensors of the graph of these element types that fit."""
        return [v for v in self.values if v.kind == "tensor" and v.element in elements and fits(v)]

    def operand(
        self,
        elements: Sequence[int],
        shape: Shape | None = None,
        rank: int | None = None,
        fits: Callable[[Value], bool] = lambda value: True,
        kind: str | None = None,
    ) -> Value:
        """A tensor of the graph of these types, of this shape or rank where given; where there is none, a new leaf."""

        def suits(value: Value) -> bool:
            return (shape is None or value.shape == shape) and rank in (None, value.rank) and fits(value)

        found = self.tensors(elements, suits)
        if found and self.chance(0.8):
            return found[-1] if self.chance(0.5) else self.choice(found)
        for _ in range(8):
            element = T.FLOAT if T.FLOAT in elements and self.chance(0.4) else self.choice(elements)
            array = draw_array(self.rng, element, self.shape(rank) if shape is None else shape, kind)
            if fits(Value("", array, element)):
                return self.known(array, self.constant_share)
        raise Rejected("no operand fits")

    def partner(self, value: Value, elements: Sequence[int] | None = None, kind: str | None = None) -> Value:
        """A tensor that broadcasts with `value`: of the same element type, or one of `elements`."""
        elements = [value.element] if elements is None else elements

        def fits(other: Value) -> bool:
            return _broadcast(value.shape, other.shape) is not None

        found = self.tensors(elements, fits)
        if found and self.chance(0.5):
            return self.choice(found)
        shape = [1 if self.chance(0.3) else size for size in value.shape][self.integer(0, value.rank) :]
        if self.chance(0.4):
            shape = list(value.shape)
        shape = [self.integer(2, 4) if size == 1 and self.chance(0.2) else size for size in shape]
        return self.leaf(self.choice(elements), tuple(shape), kind)

    # ----------------------------------------------------------------- nodes

    def emit(
        self,
        operator: str,
        inputs: Sequence[Value | None],
        outputs: int | Sequence[bool] = 1,
        domain: str = "",
        undefined: bool = False,
        bodies: Sequence[Draft] = (),
        **attributes: Any,
    ) -> list[Value]:
        """Add a node, of which `outputs` are wanted, and evaluate it; attributes that the opset lacks are left out.

        `undefined` says that ONNX leaves the result open. Raises `Rejected` where the call is not valid.
        """
        schema = self.schema(operator, domain)
        given = {k: v for k, v in attributes.items() if k in schema.attributes and v is not None}
        wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
        names = [value.name if value else "" for value in inputs]
        while names and not names[-1]:
            names.pop()
        if any(value == [] for value in given.values()):
            raise Rejected("an empty attribute has no type")
        node = helper.make_node(
            operator, names, [self.name() if want else "" for want in wanted], domain=domain, **given
        )
        read = {value.name: value for value in inputs if value}
        read |= {value.name: value for body in bodies for value in body.captured()}
        try:
            model = one_node_model(
                node, {n: value_type(v.contents, v.element, v.kind) for n, v in read.items()}, self.opset, self.domains
            )
            results = run_node(model, {name: value.contents for name, value in read.items()})
        except (ReferenceError_, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            self.rejected[operator] += 1
            raise Rejected(f"{operator}: {error}") from error
        undefined = undefined or any(value.undefined for value in read.values())
        made = [_value(o, result, undefined) for o, result in zip(model.graph.output, results)]
        self.nodes.append(node)
        self.values += made
        return made

    def withdraw(self) -> None:
        """Take the last node back, with its results."""
        names = set(self.nodes.pop().output)
        self.values = [value for value in self.values if value.name not in names]

    def captured(self) -> list[Value]:
        """The values of the surrounding graphs that this body reads."""
        own = {value.name for value in (*self.inputs, *self.constants)} | {o for n in self.nodes for o in n.output}
        used = {name for node in self.nodes for name in reads(node)} - own
        outer = self.parent.values if self.parent else []
        return [value for value in outer if value.name in used]

    def graph(self, name: str, outputs: Sequence[Value]) -> onnx.GraphProto:
        """The graph as it stands, with the sizes that its inputs have."""
        return helper.make_graph(
            self.nodes,
            name,
            [helper.make_value_info(v.name, value_type(v.contents, v.element, v.kind)) for v in self.inputs],
            [helper.make_value_info(v.name, value_type_open(v)) for v in outputs],
            [_tensor(value) for value in self.constants],
        )


def value_type_open(value: Value) -> onnx.TypeProto:
    """The type of a value without its sizes."""
    type_ = value_type(value.contents, value.element, value.kind)
    if value.kind == "tensor":
        type_.tensor_type.ClearField("shape")
    return type_


def reads(node: onnx.NodeProto) -> set[str]:
    """The names that a node reads, its bodies included."""
    names = set(node.input)
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            body = attribute.g
            own = {o for n in body.node for o in n.output} | {v.name for v in (*body.input, *body.initializer)}
            names |= set().union(*(reads(n) for n in body.node), (o.name for o in body.output)) - own
    return names - {""}


def _tensor(value: Value) -> onnx.TensorProto:
    if value.element == T.STRING:
        flat = [str(word).encode() for word in value.array.reshape(-1)]
        return helper.make_tensor(value.name, T.STRING, value.shape, flat)
    return numpy_helper.from_array(np.ascontiguousarray(value.array).reshape(value.shape), value.name)


def _value(output: onnx.ValueInfoProto, result: Any, undefined: bool) -> Value:
    """The value that an output of a node is; `Rejected` where it is too large or of no type that is drawn."""
    kind = str(output.type.WhichOneof("value") or "tensor_type").removesuffix("_type")
    if kind == "tensor":
        array = np.asarray(result)
        array = array.astype(object) if array.dtype.kind in "UST" else array
        if array.size > LARGEST or array.dtype.kind == "c":
            raise Rejected("too large, or complex")
        return Value(output.name, array, element_of(array), undefined=undefined)
    if kind == "sequence" and isinstance(result, list):
        return Value(output.name, result, output.type.sequence_type.elem_type.tensor_type.elem_type, kind, undefined)
    if kind == "optional":
        return Value(output.name, result, output.type.optional_type.elem_type.tensor_type.elem_type, kind, undefined)
    return Value(output.name, result, 0, kind, undefined)


def _broadcast(first: Shape, second: Shape) -> Shape | None:
    """The shape that both broadcast to; None where they do not."""
    try:
        return np.broadcast_shapes(first, second)
    except ValueError:
        return None
