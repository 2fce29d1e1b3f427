"""Shared tools: build one-node models, interpret them, and compare with onnxruntime or ONNX's own evaluator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.oracles import exact_outputs, open_session, product_outputs
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.interpreter.interpreter import interpret


def build_model(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    opset: int,
    initializers: Mapping[str, np.ndarray] | None = None,
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """A checked-by-nobody model of `nodes` with typed inputs and untyped outputs."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for name, value in feeds.items()
        ],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (initializers or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)] + [helper.make_opsetid(k, v) for k, v in (domains or {}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10 if opset > 14 else 8)


def reference_outputs(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs by onnxruntime, or by ONNX's evaluator where that one cannot run the model."""
    try:
        return open_session(onnx.shape_inference.infer_shapes(model)).run(None, dict(feeds))
    except Exception:  # Any failure means: this build does not implement the operator or opset.
        return exact_outputs(model, feeds)


def interpret_model(model: Any, feeds: Mapping[str, np.ndarray], **options: Any) -> list[np.ndarray]:
    """Import `model` and evaluate the Relay module by its NumPy references."""
    module, specs = from_onnx(model, **options)
    return interpret(module, {spec.name: feeds[spec.name] for spec in specs})


@pytest.fixture
def check_node() -> Callable[..., list[np.ndarray]]:
    """`check_node("Clip", [x], consts=[lo, hi], opset=13, attr=…)`: our outputs equal the reference's.

    `inputs` are fed at run time, `consts` are initializers that follow them; None leaves an optional input out. With
    `of_bytes` the reference is that of integer products (tests/oracles.py).
    """

    def check(
        op_type: str,
        inputs: Sequence[np.ndarray | None],
        consts: Sequence[np.ndarray | None] = (),
        opset: int = 17,
        outputs: int = 1,
        rtol: float = 1e-4,
        atol: float = 1e-5,
        expected: Sequence[np.ndarray] | None = None,
        domain: str = "",
        of_bytes: bool = False,
        **attributes: Any,
    ) -> list[np.ndarray]:
        values = [*inputs, *consts]
        names = ["" if value is None else f"i{index}" for index, value in enumerate(values)]
        feeds = {name: value for name, value in zip(names, inputs) if value is not None}
        initializers = {name: value for name, value in zip(names[len(inputs) :], consts) if value is not None}
        results = [f"o{index}" for index in range(outputs)]
        node = helper.make_node(op_type, names, results, name="the_node", domain=domain, **attributes)
        versions = {domain: {"ai.onnx.ml": 3}.get(domain, 1)} if domain else None
        model = build_model([node], feeds, results, opset, initializers, versions)
        got = interpret_model(model, feeds)
        if of_bytes:
            oracles = product_outputs(model, feeds)
        else:
            oracles = [reference_outputs(model, feeds) if expected is None else list(expected)]
        for wanted in oracles:
            assert len(got) == len(wanted)
            for ours, theirs in zip(got, wanted):
                assert ours.dtype == theirs.dtype
                assert ours.shape == theirs.shape
                np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=atol)
        return got

    return check


@pytest.fixture
def make_model() -> Callable[..., onnx.ModelProto]:
    """`build_model` as a fixture."""
    return build_model


@pytest.fixture
def run_model() -> Callable[..., list[np.ndarray]]:
    """`interpret_model` as a fixture: import a model and evaluate it."""
    return interpret_model


@pytest.fixture
def run_reference() -> Callable[..., list[np.ndarray]]:
    """`reference_outputs` as a fixture."""
    return reference_outputs
