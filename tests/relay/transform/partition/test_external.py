"""External code generators: marking, merging, partitioning, and running what the code generator "host" made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.relay.helpers import assert_same, module, op_names, rand, weights
from tilewright import relay
from tilewright.errors import InputError, InternalError, UnsupportedError
from tilewright.relay.dataflow_pattern import DFPattern, is_constant, is_op, wildcard
from tilewright.relay.transform.partition.annotate_target import annotate_target
from tilewright.relay.transform.partition.external import ExternalCodegen, always, register_external
from tilewright.relay.transform.partition.lower_external import lower_external
from tilewright.relay.transform.partition.merge_compiler_regions import merge_compiler_regions
from tilewright.relay.transform.partition.merge_composite import merge_composite
from tilewright.relay.transform.partition.partition_graph import partition_graph
from tilewright.relay.transform.partition.regions import read_regions


def _partitioned(mod: relay.IRModule, *targets: str) -> relay.IRModule:
    return partition_graph(merge_compiler_regions(annotate_target(mod, targets or ["host"])))


def _mlp() -> relay.IRModule:
    """Two dense layers, which "host" takes, a softmax, which it does not."""
    x = relay.var("x", shape=(2, 6))
    hidden = relay.nn.relu(relay.add(relay.nn.dense(x, weights(8, 6)), weights(8)))
    return module(relay.nn.softmax(relay.nn.dense(hidden, weights(4, 8))))


def _external(mod: relay.IRModule) -> list[str]:
    return [gvar.name for gvar, func in mod.functions.items() if "Compiler" in func.attrs]


def test_each_call_is_marked_then_neighbours_merge() -> None:
    mod = _mlp()
    marked = annotate_target(mod, "host")
    assert op_names(marked).count("annotation.compiler_end") == 4
    merged = merge_compiler_regions(marked)
    assert op_names(merged).count("annotation.compiler_end") == 1
    assert len(read_regions(merged["main"].body).distinct()) == 1
    assert_same(mod, marked)
    assert_same(mod, merged)
    assert repr(annotate_target(merged, "host")) == repr(merged)


def test_a_region_becomes_a_function_with_its_constants_inside() -> None:
    mod = _mlp()
    after = _partitioned(mod)
    assert _external(after) == ["host_0"]
    func = after["host_0"]
    assert func.attrs == {"Compiler": "host", "Primitive": 1, "global_symbol": "host_0"}
    assert len(func.params) == 1
    assert_same(mod, after)
    without = module(relay.nn.softmax(relay.var("x", shape=(2, 2))))
    assert _partitioned(without)["main"] is without["main"] or not _external(_partitioned(without))


def test_regions_stay_apart_where_a_value_would_leave_and_return() -> None:
    x = relay.var("x", shape=(2, 4))
    start = relay.tanh(x)
    outside = relay.nn.softmax(start)
    mod = module(relay.add(start, outside))
    after = _partitioned(mod)
    assert _external(after) == ["host_0", "host_1"]
    assert_same(mod, after)


def test_regions_that_depend_on_each_other_through_a_third_stay_apart() -> None:
    x, y = relay.var("x", shape=(2, 4)), relay.var("y", shape=(2, 4))
    a = relay.tanh(x)
    b = relay.nn.softmax(a)
    c = relay.add(b, y)
    d = relay.nn.softmax(relay.exp(y))
    mod = module(relay.Tuple([relay.multiply(c, a), relay.subtract(d, c), relay.exp(a)]))
    after = _partitioned(mod)
    assert len(_external(after)) >= 2
    assert_same(mod, after)


def test_several_results_come_as_a_tuple() -> None:
    x = relay.var("x", shape=(2, 4))
    both = relay.exp(x)
    mod = module(relay.add(relay.nn.softmax(both), relay.nn.softmax(relay.tanh(both))))
    after = _partitioned(mod)
    assert any(isinstance(after[name].body, relay.Tuple) for name in _external(after))
    assert_same(mod, after)


@pytest.mark.parametrize("results", [1, 2])
def test_what_the_code_generator_made_runs(results: int, tmp_path: Path) -> None:
    x = relay.var("x", shape=(2, 6))
    hidden = relay.nn.relu(relay.add(relay.nn.dense(x, weights(8, 6)), weights(8)))
    heads = [relay.nn.softmax(relay.nn.dense(hidden, weights(4, 8, seed=i))) for i in range(results)]
    mod = module(relay.Tuple(heads) if results > 1 else heads[0])
    after = _partitioned(mod)
    lowered = lower_external(after)
    assert "external.host" in op_names(lowered) and "nn.dense" not in op_names(lowered)
    assert_same(mod, lowered)
    exe = tw.compile(after)
    exe.save(tmp_path / "model.tw")
    value = rand(2, 6)
    for one in (exe, tw.load(tmp_path / "model.tw")):
        for got, expected in zip(one.run({"x": value}), relay.interpret(mod, [value]), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_code_generator_of_one_s_own() -> None:
    def double_negation(func: relay.Function, args: list[relay.Expr]) -> relay.Expr:
        return relay.negative(relay.negative(relay.visitor.substitute(func.body, dict(zip(func.params, args)))))

    register_external(ExternalCodegen("test.negation", double_negation, {"log": always}))
    x = relay.var("x", shape=(3,))
    mod = module(relay.exp(relay.log(relay.abs(x))))
    lowered = lower_external(_partitioned(mod, "test.negation"))
    assert op_names(lowered) == ["abs", "log", "negative", "negative", "exp"]
    assert_same(mod, lowered)
    with pytest.raises(InternalError, match=r"'test.negation' is registered twice"):
        register_external(ExternalCodegen("test.negation", double_negation))


def test_the_first_target_that_takes_a_call_gets_it() -> None:
    register_external(ExternalCodegen("test.relu", lambda func, args: relay.nn.relu(args[0]), {"nn.relu": always}))
    after = _partitioned(_mlp(), "test.relu", "host")
    assert sorted(_external(after)) == ["host_0", "host_1", "test.relu_0"]
    assert_same(_mlp(), after)


def test_an_unknown_code_generator_is_named() -> None:
    with pytest.raises(UnsupportedError, match=r"no external code generator 'hots'; did you mean 'host'"):
        annotate_target(_mlp(), ["hots"])


def test_branches_are_not_looked_into() -> None:
    x = relay.var("x", shape=(2,))
    mod = module(relay.If(relay.less(relay.sum(x), relay.const(0.0)), relay.exp(x), relay.tanh(x)))
    assert not _external(_partitioned(mod))


def _dense_relu() -> DFPattern:
    return is_op("nn.relu")(is_op("nn.dense")(wildcard(), is_constant()))


def test_composites_are_taken_by_name_and_lowered_as_a_whole() -> None:
    x = relay.var("x", shape=(2, 6))
    mod = module(relay.nn.softmax(relay.nn.relu(relay.nn.dense(x, weights(4, 6)))))
    merged = merge_composite(mod, [("host.dense_relu", _dense_relu())])
    assert op_names(merged) == ["nn.dense", "nn.relu", "nn.softmax"]
    after = _partitioned(merged)
    assert _external(after) == ["host_0"]
    assert_same(mod, lower_external(after))
    np.testing.assert_allclose(tw.compile(after)(rand(2, 6)), relay.interpret(mod, [rand(2, 6)])[0], rtol=1e-5)


def test_composites_that_nobody_took_are_put_back() -> None:
    x = relay.var("x", shape=(2, 6))
    mod = module(relay.nn.relu(relay.nn.dense(x, weights(4, 6))))
    merged = merge_composite(mod, [("other.dense_relu", _dense_relu(), lambda found: True)])
    assert any(isinstance(call.op, relay.Function) for call in relay.visitor.calls(merged["main"].body))
    assert op_names(lower_external(merged)) == ["nn.dense", "nn.relu"]
    np.testing.assert_allclose(tw.compile(merged)(rand(2, 6)), relay.interpret(mod, [rand(2, 6)])[0], rtol=1e-5)
    refused = merge_composite(mod, [("other.dense_relu", _dense_relu(), lambda found: False)])
    assert not any(isinstance(call.op, relay.Function) for call in relay.visitor.calls(refused["main"].body))
    with pytest.raises(InputError, match=r"entries \(name, pattern\)"):
        merge_composite(mod, [("name",)])  # type: ignore[list-item]


def test_tuples_of_operands_go_into_the_region() -> None:
    x = relay.var("x", shape=(2, 6))
    joined = relay.concatenate([relay.tanh(x), relay.exp(x), weights(2, 3)], axis=1)
    mod = module(relay.nn.softmax(relay.nn.dense(joined, weights(4, 15))))
    after = _partitioned(mod)
    assert _external(after) == ["host_0"] and op_names(lower_external(after)) == ["external.host", "nn.softmax"]
    assert_same(mod, lower_external(after))
    np.testing.assert_allclose(tw.compile(after)(rand(2, 6)), relay.interpret(mod, [rand(2, 6)])[0], rtol=1e-5)
    pair = relay.Tuple([relay.tanh(x), x])
    shared = module(relay.Tuple([relay.concatenate(pair, axis=0), relay.concatenate(pair, axis=1)]))
    assert_same(shared, _partitioned(shared))
