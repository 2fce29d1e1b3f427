"""One layer of a Keras model as its converter sees it: configuration, weights, types, and the layers inside it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from tilewright.errors import ModelError, UnsupportedError
from tilewright.frontend.idioms import cast, dtype_of, is_float
from tilewright.frontend.keras.weights import Weights
from tilewright.relay.ir.expr import Constant, Expr
from tilewright.support.dtype import DType

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class LayerImporter(ABC):
    """What the layers of one model share while it is imported."""

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


class Described:
    """What messages and converters say of a layer or an operation."""

    def __init__(self, class_name: str, name: str, config: Mapping[str, Any], scope: str) -> None:
        self.class_name = class_name
        self.name = name
        self.config = config
        self.span = scope + name
        self.label = f"{class_name} {self.span!r}"

    def __getitem__(self, key: str) -> Any:
        """An entry of the configuration, whose absence is a `ModelError`."""
        if key not in self.config:
            raise ModelError(f"{self.label} lacks {key!r} in its configuration")
        return self.config[key]

    def get(self, key: str, default: Any = None) -> Any:
        """An entry of the configuration."""
        return self.config.get(key, default)

    def unsupported(self, reason: str) -> NoReturn:
        """Raise the `UnsupportedError` of this layer."""
        raise UnsupportedError(f"{self.label}: {reason}")

    def wrong(self, reason: str) -> NoReturn:
        """Raise the `ModelError` of this layer."""
        raise ModelError(f"{self.label}: {reason}")


class Operation(Described):
    """An operation of `keras.ops` in a graph."""


class Layer(Described):
    """A layer of one place in the model; layers inside it have weights below its own."""

    def __init__(
        self,
        class_name: str,
        name: str,
        config: Mapping[str, Any],
        weights: Weights,
        importer: LayerImporter,
        scope: str,
    ) -> None:
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
        """Where files that belong to the layer are, within the assets."""
        return self.weights.path

    @property
    def last(self) -> bool:
        """True where channels are the last axis."""
        return self.get("data_format", "channels_last") != "channels_first"

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
        weights = self.weights.child(attribute, name or own)
        return self._made(class_name, own, config, weights, custom)

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

    def give_mask(self, mask: Any) -> None:
        """Let `mask` (or a list of them, for several results) go on with the result."""
        self.mask, self.has_mask = mask, True

    def state(self, name: str, shape: Sequence[int], dtype: str) -> Expr:
        """The value of a variable that lives between runs, when this one begins: an input of the model."""
        return self.importer.state(f"{self.span}/{name}", shape, dtype)

    def keep(self, name: str, value: Expr) -> None:
        """What the variable `name` is when the run ends."""
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
