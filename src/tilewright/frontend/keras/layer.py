"""One layer of a Keras model as its converter sees it: configuration, weights, types, and the layers inside it."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from tilewright.errors import ModelError
from tilewright.frontend.graph_node import Labelled
from tilewright.frontend.idioms import cast, constant, dtype_of, is_float, rank_of
from tilewright.frontend.keras.weights import Weights
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.support.dtype import DType

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class LayerImporter(ABC):
    """The state shared by the layers of one model while it is imported."""

    #: What variables that live between runs become, by name.
    next_states: dict[str, Expr]
    #: True for a file of Keras 2's format.
    legacy: bool

    @abstractmethod
    def described(self, item: Any, where: str) -> tuple[str, dict[str, Any], bool]:
        """The class, the configuration and whether it is of another package, of a serialized layer."""

    @abstractmethod
    def apply(self, layer: Layer, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A layer applied to values."""

    @abstractmethod
    def operation(self, item: Operation, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """An operation of `keras.ops` applied to values."""

    @abstractmethod
    def mask_of(self, value: Any) -> Any:
        """The mask of a tensor, or None; of a list, a list."""

    @abstractmethod
    def with_mask(self, value: Expr, mask: Any) -> Expr:
        """`value`, which `mask` goes on with, or none."""

    @abstractmethod
    def state(self, name: str, shape: Sequence[int], dtype: str) -> Expr:
        """The variable `name` when the run begins."""

    @abstractmethod
    def asset_lines(self, layer: Layer, name: str) -> list[str] | None:
        """The lines of a file that belongs to a layer, or None."""


class Described(Labelled):
    """A layer or an operation as messages and converters describe it; `arguments` are those of the call at hand."""

    def __init__(self, class_name: str, name: str, config: Mapping[str, Any], scope: str) -> None:
        self.span = scope + name
        super().__init__(f"{class_name} {self.span!r}")
        self.class_name = class_name
        self.name = name
        self.config = config
        self.arguments: Sequence[Any] = ()

    def operands(self) -> Sequence[Any]:
        return self.arguments

    def __getitem__(self, key: str) -> Any:
        """An entry of the configuration, whose absence is a `ModelError`."""
        if key not in self.config:
            raise ModelError(f"{self.label} lacks {key!r} in its configuration")
        return self.config[key]

    def get(self, key: str, default: Any = None) -> Any:
        """An entry of the configuration."""
        return self.config.get(key, default)


class Operation(Described):
    """An operation of `keras.ops` in a graph."""


class Layer(Described):
    """A layer of one position in the model; layers inside it have weights below its own."""

    def __init__(
        self, class_name: str, name: str, config: Mapping[str, Any], weights: Weights, importer: LayerImporter,
        scope: str,
    ) -> None:  # fmt: skip
        super().__init__(class_name, name, config, scope)
        self.weights = weights
        self.importer = importer
        self.policy = _policy(config.get("dtype"))
        self.compute_dtype = self.policy.removeprefix("mixed_") if self.policy != "mixed" else "float32"
        self.quantization = ""
        if "_from_" in self.policy:
            self.quantization, _, base = self.policy.partition("_from_")
            self.compute_dtype = base.removeprefix("mixed_")
        if self.compute_dtype not in _FLOATS:
            self.compute_dtype = self.compute_dtype if self.compute_dtype in _OTHERS else "float32"
        self.mask: Any = None
        self.has_mask = False

    @property
    def asset_path(self) -> str:
        """The path of files that belong to the layer, within the assets."""
        return self.weights.path

    @property
    def last(self) -> bool:
        """True where channels are the last axis."""
        return channels_behind(self.get("data_format"))

    def own(self, *names: str) -> list[Constant]:
        """The layer's variables, which Keras calls `names`, in the order in which it makes them; as they are stored."""
        arrays = self.weights.own(names)
        if arrays is None:
            raise ModelError(f"{self.label}: the file has no weights for it ({', '.join(names)})")
        return [Constant(array) for array in arrays]

    def weight(self, *names: str) -> list[Expr]:
        """As `own`, in the type in which the layer computes."""
        return [self.cast(value) for value in self.own(*names)]

    def array(self, *names: str) -> list[np.ndarray]:
        """As `own`, as arrays."""
        return [value.data for value in self.own(*names)]

    def cast(self, value: Expr) -> Expr:
        """`value` in the type in which the layer computes."""
        if isinstance(value, Constant) and value.data.dtype.name != self.compute_dtype:
            return Constant(np.asarray(cast_array(value.data, self.compute_dtype)))
        return cast(value, self.compute_dtype)

    def input(self, value: Any) -> Any:
        """Floats, also those inside lists and dictionaries, in the type in which the layer computes."""
        if isinstance(value, Expr):
            return cast(value, self.compute_dtype) if is_float(dtype_of(value)) else value
        if isinstance(value, list | tuple):
            return type(value)(self.input(item) for item in value)
        if isinstance(value, dict):
            return {key: self.input(item) for key, item in value.items()}
        return value

    def inside(self, described: Any, attribute: str, name: str = "") -> Layer:
        """The layer that a serialized object describes, whose weights are below `attribute`."""
        class_name, config, custom = self.importer.described(described, f"{self.label}: {attribute}")
        own = str(config.get("name") or name or attribute)
        return self._made(class_name, own, config, self.weights.child(attribute, name or own), custom)

    def inner(
        self, class_name: str, attribute: str, name: str, config: Mapping[str, Any], policy: bool = True
    ) -> Layer:
        """A layer that this one makes itself, whose `attribute` it is and that it calls `name`."""
        given = {"dtype": self.config.get("dtype"), **config} if policy else dict(config)
        return self._made(class_name, name, given, self.weights.child(attribute, name), False)

    def list_inside(self, described: Sequence[Any], attribute: str) -> list[Layer]:
        """The layers of a list, whose weights are below `attribute`."""
        found = [self.importer.described(item, f"{self.label}: {attribute}") for item in described]
        names = [str(config.get("name", "")) for _, config, _ in found]
        weights = self.weights.children(attribute, [class_name for class_name, _, _ in found], names)
        return [
            self._made(class_name, name or class_name, config, below, custom)
            for (class_name, config, custom), name, below in zip(found, names, weights)
        ]

    def _made(self, class_name: str, name: str, config: Mapping[str, Any], weights: Weights, custom: bool) -> Layer:
        made = Layer(class_name, name, config, weights, self.importer, f"{self.span}/")
        made.custom = custom
        return made

    #: True for a layer of another package than Keras.
    custom = False
    #: What the file says of the shapes that the layer was made for.
    given: Mapping[str, Any] = MappingProxyType({})
    #: Of a model that is a layer, what is inside it.
    body: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The layer applied, as another layer's converter does; masks that tensors came with go in."""
        return self.importer.apply(self, args, kwargs)

    def mask_of(self, value: Any) -> Any:
        """The mask that came with a tensor, or None; of lists, lists of them."""
        return self.importer.mask_of(value)

    def set_mask(self, mask: Any) -> None:
        """Let `mask` (or a list of them, for several results) go on with the result."""
        self.mask, self.has_mask = mask, True

    def state(self, name: str, shape: Sequence[int], dtype: str) -> Expr:
        """The value of a variable that lives between runs, when this one begins: an input of the model."""
        return self.importer.state(f"{self.span}/{name}", shape, dtype)

    def keep(self, name: str, value: Expr) -> None:
        """Set the value of the variable `name` at the end of the run."""
        self.importer.next_states[f"{self.span}/{name}"] = value


_OTHERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "string")


def cast_array(data: np.ndarray, dtype: str) -> np.ndarray:
    """An array in the type that Relay calls `dtype`."""
    with np.errstate(over="ignore"):
        return data.astype(DType(dtype).numpy)


def _policy(given: Any) -> str:
    """The name of a layer's dtype policy."""
    if isinstance(given, dict):
        config = given.get("config") or {}
        if given.get("class_name") == "DTypePolicyMap":
            return str(config.get("default_policy") or "float32")
        name = str(config.get("name") or "float32")
        mode = config.get("mode")
        if mode and "_from_" not in name:
            return f"{mode}_from_{config.get('source_name') or name}"
        return name if not config.get("source_name") else f"{config.get('mode')}_from_{config['source_name']}"
    return str(given) if given else "float32"


# ------------------------------------- Lists, tuples and dictionaries of values, as arguments and results of layers are
def flatten(value: Any) -> list[Any]:
    """The leaves in order; those of a dictionary by its sorted keys."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in flatten(item)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    return [value]


def map_tensors(value: Any, function: Callable[[Expr], Any]) -> Any:
    """The same structure with `function` of each expression; other leaves stay."""
    if isinstance(value, list | tuple):
        return type(value)(map_tensors(item, function) for item in value)
    if isinstance(value, dict):
        return {key: map_tensors(item, function) for key, item in value.items()}
    return function(value) if isinstance(value, Expr) else value


# -------------- The element types in which `keras.ops` computes: the lattice of JAX, Python's numbers being of any type
_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")


def promote(*dtypes: str) -> str:
    """The type of a result of operands of these types."""
    kinds = set(dtypes)
    floats = [name for name in _FLOATS if name in kinds]
    if floats:
        return "float32" if floats == ["float16", "bfloat16"] else floats[-1]
    kinds.discard("bool")
    if not kinds:
        return "bool"
    signed = [name for name in _SIGNED if name in kinds]
    unsigned = [name for name in _UNSIGNED if name in kinds]
    if not signed or not unsigned:
        return (signed or unsigned)[-1]
    wider = _UNSIGNED.index(unsigned[-1]) + 1
    return "float32" if wider == len(_SIGNED) else _SIGNED[max(wider, _SIGNED.index(signed[-1]))]


def _python_kind(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    return "int32" if isinstance(value, int) else "float32"


def tensors(*values: Any, at_least_float: bool = False) -> list[Expr]:
    """Operands, tensors or Python's numbers, in the type that they are computed in."""
    arrays = [Constant(np.asarray(value)) if isinstance(value, list | tuple) else value for value in values]
    known = [dtype_of(value) for value in arrays if isinstance(value, Expr)]
    dtype = promote(*known) if known else promote(*[_python_kind(value) for value in arrays])
    if known and not is_float(dtype):
        weak = {_python_kind(value) for value in arrays if not isinstance(value, Expr)}
        if "float32" in weak:
            dtype = "float32"
        elif "int32" in weak and dtype == "bool":
            dtype = "int32"
    if at_least_float and not is_float(dtype):
        dtype = "float32"
    return [cast(value, dtype) if isinstance(value, Expr) else constant(value, dtype) for value in arrays]


#: Annotations of operands of operations: in the one type that all so annotated are promoted to, of floats at least.
Tensor: TypeAlias = Expr
FloatTensor: TypeAlias = Expr
#: Those of an axis that may be left out, and of axes.
Axis = int
Axes = tuple[int, ...]


def call_operation(converter: Callable[..., Any], item: Operation, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """The result of the converter of an operation, whose operands are tensors as their annotations say.

    Those annotated `Expr` are made tensors by themselves. An `Axis` or `Axes` (all for None or `()`) is of the first
    operand, counted from the front. The first parameter is the operation where it is annotated so, or not at all.
    """
    parameters = inspect.signature(converter).parameters
    kinds = {name: str(one.annotation).removesuffix(" | None") for name, one in parameters.items()}
    first = next(iter(parameters.values())).annotation
    bound = inspect.signature(converter).bind(*([item] if first in ("Operation", _EMPTY) else []), *args, **named)
    bound.apply_defaults()
    given = bound.arguments
    for kind in ("Tensor", "FloatTensor"):
        names = [name for name in given if kinds[name] == kind and given[name] is not None]
        found = tensors(*(given[name] for name in names), at_least_float=kind == "FloatTensor") if names else []
        given.update(zip(names, found))
    for name in given:
        if kinds[name] == "Expr" and given[name] is not None:
            (given[name],) = tensors(given[name])
    operand = next((value for value in given.values() if isinstance(value, Expr)), None)
    for name, kind in kinds.items():
        if operand is not None and (kind == "Axes" or (kind == "Axis" and given[name] is not None)):
            axes = axes_of(operand, given[name])
            given[name] = axes if kind == "Axes" else axes[0]
    return converter(*bound.args, **bound.kwargs)


_EMPTY = inspect.Parameter.empty


def axes_of(value: Expr, axis: Any) -> Axes:
    """Axes counted from the front; all for None."""
    rank = rank_of(value)
    return tuple(range(rank)) if axis is None or axis == () else tuple(one % rank for one in whole_numbers(axis))


def channels_behind(data_format: Any) -> bool:
    """True where channels are the last axis, as they are without a data format."""
    return data_format != "channels_first"


def whole_numbers(value: Any) -> list[int]:
    """A number, a list of them or a constant, as a list of integers."""
    if isinstance(value, Constant):
        value = value.data.tolist()
    return [int(one) for one in (value if isinstance(value, list | tuple) else [value])]


def as_float(value: Any) -> Expr:
    """A tensor of floats: whole numbers become float32."""
    (made,) = tensors(value, at_least_float=True)
    return made
