"""The walk over an ONNX graph: nodes are converted in order, constants folded on the way, problems collected.

Whatever a graph computes from static shapes (Shape, Gather, Concat, Cast, Range …) has constant inputs and becomes a
constant as soon as it is converted; what it computes from symbolic ones is tracked as expressions (`symbolic.py`).
Reshape, Slice, Resize and the like then find what they need at import time. A node that needs more than that, or whose
values are no plain tensors, becomes a host operator (`host.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx.checker import ValidationError
from onnx.shape_inference import InferenceError

from tilewright.errors import (
    InternalError,
    ModelError,
    NoTruthValue,
    TilewrightError,
    TypeMismatchError,
    UnsupportedError,
    UserError,
)
from tilewright.frontend.converters import Converter
from tilewright.frontend.finish import MOST_GROWTH_BYTES, Finisher, fold_call
from tilewright.frontend.graph_walk import UNAVAILABLE, Unavailable
from tilewright.frontend.onnx import symbolic
from tilewright.frontend.onnx.broadcasting import stretched
from tilewright.frontend.onnx.control import Fork, choose
from tilewright.frontend.onnx.host import convert_on_host, host_name, needs_host
from tilewright.frontend.onnx.load import DEFAULT_DOMAIN, LoadedModel, normalize_domain
from tilewright.frontend.onnx.node import Environment, Importer, NeedsValue, OnnxNode, is_quantized_weight
from tilewright.frontend.onnx.registry import converts
from tilewright.frontend.onnx.schema import check_attributes, expand_node, has_definition
from tilewright.frontend.onnx.tensors import array_of, dense_array_of
from tilewright.frontend.signature import apply
from tilewright.frontend.unsupported import Unsupported
from tilewright.relay import op
from tilewright.relay.ir.call_reference import reference_value
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.type import TensorType, Type
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.support.open_sizes import how_to_fix

#: Nodes behind which a graph is converted twice: each may double what is compiled.
_MOST_FORKS = 4
_RANDOM = (
    "RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike", "Bernoulli", "Multinomial", "Dropout",
)  # fmt: skip
_NEVER_FOLDED = frozenset(f"onnx.{name}" for name in (*_RANDOM, "Fail"))
#: Operators whose definition is computed in float32 where their types are narrower: ONNX leaves open where they round.
_WIDENED = frozenset(
    ("Attention", "NegativeLogLikelihoodLoss", "RotaryEmbedding",
     "SoftmaxCrossEntropyLoss", "SwiGLU")
)  # fmt: skip
_NARROW = ("float16", "bfloat16")
NO_CONVERTER = "no converter for this operator"
#: What Python, NumPy and ONNX raise where a node's attributes and the values of its inputs do not go together.
_OF_DATA = (ValueError, IndexError, KeyError, TypeError, ArithmeticError, MemoryError, ValidationError, InferenceError)


def _wide(value: Expr | None) -> Expr | None:
    """`value` in float32 if it is a narrower float."""
    if value is None or tensor_type_of(value).dtype not in _NARROW:
        return value
    return op.cast(value, "float32")


class GraphImporter(Importer):
    """Converts the nodes of one model; `problems` gathers what cannot be converted."""

    def __init__(self, model: LoadedModel) -> None:
        super().__init__(model.directory)
        self.problems = Unsupported()
        self.open_inputs: list[tuple[str, Sequence[Any]]] = []  # inputs of the model with sizes that are not fixed
        #: Initializers that stay operands: calls on them are not computed here.
        self.operands: set[Expr] = set()
        self._finisher = Finisher(self._fold)
        self._forks = 0

    def declare(self, graph: Any) -> None:
        """Note the types that `graph` states of its values."""
        for value in [*graph.value_info, *graph.output]:
            self.declared[value.name] = value.type

    def initializers(self, graph: Any, cut_out: Mapping[str, memoryview] | None = None) -> dict[str, Constant]:
        """Constants of the initializers of a graph, by name; the raw data of some may be given apart."""
        found = {
            tensor.name: Constant(array_of(tensor, self.directory, "initializer", (cut_out or {}).get(tensor.name)))
            for tensor in graph.initializer
        }
        for sparse in graph.sparse_initializer:
            found[sparse.values.name] = Constant(dense_array_of(sparse, self.directory, "initializer"))
        return found

    def _fold(self, call: Call) -> Expr | None:
        fields = [item for arg in call.args for item in (arg.fields if isinstance(arg, Tuple) else (arg,))]
        return None if self.operands.intersection(fields) else _fold(call)

    def run(
        self, nodes: Iterable[Any], env: Environment, opsets: Mapping[str, int], results: Sequence[str],
        scope: str = "", first: int = 0,
    ) -> None:  # fmt: skip
        """Convert `nodes` from number `first` on, putting their outputs into `env`, of which `results` will be read."""
        nodes = list(nodes)
        for index, proto in enumerate(nodes[first:], first):
            span = scope + (proto.name or f"{proto.op_type}_{index}")
            try:
                outputs = self._convert(proto, span, env, opsets)
            except Fork as fork:
                if index + 1 < len(nodes) and self._forks < _MOST_FORKS:
                    self._follow(fork, nodes, env, opsets, results, scope, index)
                    return
                outputs = choose(fork.label, fork.condition, fork.branches)
            env.update({name: value for name, value in zip(proto.output, outputs) if name})

    def _follow(
        self, fork: Fork, nodes: Sequence[Any], env: Environment, opsets: Mapping[str, int], results: Sequence[str],
        scope: str, index: int,
    ) -> None:  # fmt: skip
        """Convert what is behind node `index` once for each of the branches that are its outputs, for `results`."""
        self._forks += 1
        ends: list[list[Expr | Unavailable] | ModelError] = []
        for branch in fork.branches:
            if isinstance(branch, ModelError):
                ends.append(branch)
                continue
            world = {**env, **{name: value for name, value in zip(nodes[index].output, branch) if name}}
            try:
                self.run(nodes, world, opsets, results, scope, index + 1)
                ends.append([world.get(name, UNAVAILABLE) for name in results])
            except ModelError as error:
                ends.append(error)
        if any(UNAVAILABLE in values for values in ends if not isinstance(values, ModelError)):
            env.update(dict.fromkeys(results, UNAVAILABLE))
        else:
            env.update(zip(results, choose(fork.label, fork.condition, ends)))  # type: ignore[arg-type]

    def subgraph(
        self, graph: Any, node: OnnxNode, inputs: Mapping[str, Expr] | None = None, env: Environment | None = None
    ) -> list[Expr | None]:
        """The outputs of a graph-valued attribute, converted in place, as `Importer` says."""
        self.declare(graph)
        around = node.env if env is None else env
        inner: Environment = {**around, **self.initializers(graph), **(inputs or {})}
        names = [output.name for output in graph.output]
        self.run(graph.node, inner, node.opsets, names, f"{node.span}/")
        values = [self._lookup(name, inner, f"the graph of {node.label}") for name in names]
        return [None if isinstance(value, Unavailable) else value for value in values]

    def _convert(
        self, proto: Any, span: str, env: Environment, opsets: Mapping[str, int]
    ) -> Sequence[Expr | Unavailable]:
        domain = normalize_domain(proto.domain)
        opset = opsets.get(domain, 1)
        label = f"node {span!r} ({domain or 'ai.onnx'}.{proto.op_type}, opset {opset})"
        check_attributes(proto, domain, opset, label)
        inputs = [self._lookup(name, env, label) for name in proto.input]
        converter = converts.find(proto.op_type, opset, domain)
        node = OnnxNode(proto, label, span, opset, inputs, self, env, opsets)  # type: ignore[arg-type]
        try:
            if any(isinstance(value, Unavailable) for value in inputs):
                known = converter is not None or has_definition(proto.op_type, domain, opset)
                if not known and host_name(domain, proto.op_type) is None:
                    node.unsupported(NO_CONVERTER)
            else:
                return self._tracked(node, domain, converter)
        except UnsupportedError as error:
            what = str(error).removeprefix(f"{label}: ")
            self.problems.add(
                node.operator, label, what if what == NO_CONVERTER else what + self._of_open_shapes(inputs)
            )
        except TypeMismatchError as error:
            raise ModelError(f"{label} does not fit its inputs: {error}{self._of_open_shapes(inputs)}") from None
        except ModelError as error:
            raise ModelError(f"{error}{self._of_open_shapes(inputs)}") from None
        except Exception as error:
            if isinstance(error, TilewrightError | Fork) and not isinstance(error, NoTruthValue):
                raise
            if reason := self._of_open_shapes(inputs):
                self.problems.add(node.operator, label, reason.removeprefix("; "))
                return [UNAVAILABLE] * len(proto.output)
            if isinstance(error, _OF_DATA):
                raise ModelError(_does_not_fit(label, inputs, error)) from error
            raise InternalError(f"{label}: its conversion failed with {type(error).__name__}: {error}.") from error
        return [UNAVAILABLE] * len(proto.output)

    def _tracked(self, node: OnnxNode, domain: str, converter: Converter | None) -> Sequence[Expr | Unavailable]:
        """The outputs of a node. What is known of the elements of the first is kept; if all is, it is a constant."""
        outputs = list(self._outputs(node, domain, converter))
        first = outputs[0] if outputs else None
        if not isinstance(first, Expr) or isinstance(first, Constant):
            return outputs
        known = symbolic.evaluate(node)
        if known is None:
            return outputs
        if symbolic.is_integers(known):
            return [Constant(known.astype(tensor_type_of(first).dtype.numpy)), *outputs[1:]]
        self.symbolic[first] = known
        return outputs

    def _outputs(self, node: OnnxNode, domain: str, converter: Converter | None) -> Sequence[Expr | Unavailable]:
        """By the converter, on the host, or by the operator's definition, whichever fits first."""
        on_host = host_name(domain, node.op_type) is not None
        if on_host and needs_host(node.inputs):
            return self._finished_all(convert_on_host(node, domain), node)
        if converter is None:
            return self._without_converter(node, domain)
        node.inputs = stretched(node, domain)
        try:
            return self._apply(converter, node)
        except NeedsValue:
            if on_host:
                return self._finished_all(convert_on_host(node, domain), node)
            if has_definition(node.op_type, domain, node.opset):
                return self._without_converter(node, domain)
            raise
        except (TypeError, ValueError, ModelError, TypeMismatchError, UnsupportedError) as error:
            # Operators without a rule for dimensions that vary from run to run may still run on the host.
            if all(_is_static(value) for value in node.inputs if isinstance(value, Expr)):
                raise
            if on_host:
                return self._on_host_after(error, node, domain)
            if has_definition(node.op_type, domain, node.opset):
                return self._without_converter(node, domain)
            raise

    def _on_host_after(self, error: Exception, node: OnnxNode, domain: str) -> Sequence[Expr | Unavailable]:
        """The outputs of a node on the host; where that cannot be either, what did not fit counts, and is raised."""
        try:
            return self._finished_all(convert_on_host(node, domain), node)
        except UnsupportedError:
            if isinstance(error, ModelError | TypeMismatchError):
                raise error from None
            raise

    def _finished_all(self, values: Sequence[Expr | None], node: OnnxNode) -> list[Expr | Unavailable]:
        done: dict[Expr, Expr] = {}  # for all values: several outputs of one operator stay outputs of one
        return [UNAVAILABLE if value is None else self._finisher.finish(value, node.span, done) for value in values]

    def _apply(self, converter: Converter, node: OnnxNode) -> list[Expr | Unavailable]:
        result = apply(converter, node)
        outputs = [result] if isinstance(result, Expr) else result
        unread = node.unread()
        if unread:
            node.unsupported(f"attribute {', '.join(unread)}")
        return self._finished_all(outputs, node)

    def _without_converter(self, node: OnnxNode, domain: str) -> list[Expr | Unavailable]:
        """The operator on the host where it runs there, else what ONNX defines it to be in simpler operators."""
        name = host_name(domain, node.op_type)
        if name is not None:
            values = self._finished_all(convert_on_host(node, domain), node)
            foldable = all(isinstance(value, Constant | None) for value in node.inputs) and name not in _RANDOM
            return [_computed(value) for value in values] if foldable else values
        widened = domain == DEFAULT_DOMAIN and node.op_type in _WIDENED and node.dtype() in _NARROW
        inputs = [_wide(value) if widened else value for value in node.inputs]
        types = [None if value is None else type_of(value) for value in inputs]
        body = expand_node(node.proto, domain, node.opset, types)
        if body is None:
            node.unsupported(NO_CONVERTER)
        results = self._run_body(node, body, inputs)
        if not widened:
            return results
        narrow = [op.cast(value, str(node.dtype())) if isinstance(value, Expr) else None for value in results]
        return self._finished_all(narrow, node)

    def _run_body(self, node: OnnxNode, body: Any, inputs: Sequence[Expr | None]) -> list[Expr | Unavailable]:
        """Convert the definition of an operator that ONNX defines through simpler ones."""
        env: Environment = {name: value for name, value in zip(body.input, inputs) if value is not None}
        imports = {normalize_domain(entry.domain): int(entry.version) for entry in body.opset_import}
        self.run(body.node, env, {**node.opsets, **imports}, body.output, f"{node.span}/")
        return [env.get(name, UNAVAILABLE) for name in body.output]

    def _of_open_shapes(self, inputs: Sequence[Expr | Unavailable | None]) -> str:
        """Advice about inputs of a node with symbolic dimensions, as the end of a message; empty where there is
        none.
        """
        shapes = [str(type_of(value)) for value in inputs if isinstance(value, Expr) and not _is_static(value)]
        if not shapes:
            return ""
        varying = f"its inputs {', '.join(shapes)} have dimensions that vary from run to run"
        return f"; {varying}; fix them{f' with {how_to_fix(self.open_inputs)}' if self.open_inputs else ''}"

    def _lookup(self, name: str, env: Environment, label: str) -> Expr | Unavailable | None:
        if not name:
            return None
        value = env.get(name)
        if value is None:
            raise ModelError(f"{label} reads {name!r}, which no input, initializer or earlier node provides")
        return value


def _does_not_fit(label: str, inputs: Sequence[Any], error: Exception) -> str:
    types = ", ".join(str(type_of(value)) if isinstance(value, Expr) else "none" for value in inputs)
    return (
        f"{label} does not fit its inputs ({types or 'none'}): {type(error).__name__}: {error}. "
        "If onnx.checker.check_model(model, full_check=True) accepts the model, it is our fault: please report it"
    )


def _is_static(value: Expr) -> bool:
    """False for a tensor whose shape holds more than integers, and for what is no tensor."""
    found = type_of(value)
    return isinstance(found, TensorType) and found.is_static


def _computed(value: Expr | Unavailable) -> Expr | Unavailable:
    """The tensor of numbers that a host operator makes of constants; what makes anything else stays a call."""
    if not isinstance(value, Expr) or not isinstance(type_of(value), TensorType):
        return value
    if _nbytes(type_of(value)) > MOST_GROWTH_BYTES:
        return value
    try:
        result = reference_value(value)
    except (UserError, InternalError):  # the model may never come here: the error is for the run that does
        return value
    numbers = isinstance(result, np.ndarray) and result.dtype.kind in "biuf"
    return Constant(result) if numbers else value


def _nbytes(type_: Type) -> int:
    """Bytes of a tensor whose shape is known; 0 for anything else."""
    return type_.nbytes if isinstance(type_, TensorType) and type_.is_static and not type_.dtype.is_string else 0


def _fold(call: Call) -> Expr | None:
    """`fold_call` of what computes the same at every time, and is no weight that integers are computed with."""
    if isinstance(call.op, Op) and (call.op.name in _NEVER_FOLDED or is_quantized_weight(call)):
        return None
    return fold_call(call)
