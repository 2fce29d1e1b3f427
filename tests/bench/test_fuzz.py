"""The fuzzer of graphs: what it draws is valid and says the same each time, what it judges it judges right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import defs, parser

pytest.importorskip("onnxruntime", reason="the fuzzer compares with onnxruntime")

from bench.fuzz import graphs, operators, worker
from bench.fuzz.case import Case, Settings
from bench.fuzz.causes import UNEXPLAINED, cause_of_disagreement
from bench.fuzz.judge import differs, moved_results, stands, tainted
from bench.fuzz.minimize import minimize
from bench.fuzz.processes import LOOK, OwnTime, Worker


def case(text: str, opset: int = 17, **feeds: Any) -> Case:
    """A case of a model in ONNX's text form."""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {text}')
    return Case(0, model, feeds, Settings())


def test_every_operator_is_drawn_or_left_out_with_a_reason() -> None:
    names = {schema.name for schema in defs.get_all_schemas() if schema.domain == ""}
    drawn = {name for opset in range(operators.OLDEST, operators.NEWEST + 1) for name in operators.available(opset)}
    assert names - drawn - set(operators.LEFT_OUT) == set()
    assert not drawn & set(operators.LEFT_OUT) and all(operators.LEFT_OUT.values())


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_is_one_valid_graph(seed: int) -> None:
    drawn, again = operators.draw_case(seed), operators.draw_case(seed)
    assert drawn.text() == again.text() and len(drawn.model.graph.node) <= 20
    if drawn.model.graph.output:
        onnx.checker.check_model(drawn.model, full_check=True)


def test_a_right_graph_and_a_wrong_one() -> None:
    x = np.array([[1.0, -2.0]], np.float32)
    right = case("g (float[1, 2] x) => (float[1, 2] y) { y = Relu(x) }", x=x)
    assert worker.judge(right).outcome == worker.RIGHT
    ours, theirs = np.array([1.0, 2.0], np.float32), np.array([1.0, 2.001], np.float32)
    assert differs(ours, theirs) and stands(right.model, {"x": x}, 0, "y", ours.reshape(1, 2), theirs.reshape(1, 2))


def test_a_refusal_that_sizes_of_a_run_cause_is_told_from_others() -> None:
    text = "g (float[2,4] x, int64[2] end) => (uint8[a,b] y) <int64[2] start = {0,0}, float[2,2] s = {1,2,3,4}> "
    feeds = {"x": np.ones((2, 4), np.float32), "end": np.array([2, 4])}
    part = "{ part = Slice(x, start, end)  "
    open_ = case(text + part + "y = QuantizeLinear <axis=1, block_size=2> (part, s) }", 21, **feeds)
    assert worker.judge(open_).outcome == worker.UNSETTLED
    unknown = case(text + part + "y = NoSuchOperator(part, s) }", 21, **feeds)
    assert worker.judge(unknown).outcome == worker.REFUSED


def test_rounding_that_a_graph_makes_large_is_no_fault() -> None:
    x = np.array([1e7 + 3.0], np.float32)
    drawn = case("g (float[1] x) => (float[1] y) { z = Exp(x)  a = Sqrt(x)  b = Mul(a, a)  y = Sub(b, x) }", x=x)
    ours, theirs = np.array([1.0], np.float32), np.array([0.0], np.float32)
    assert stands(drawn.model, {"x": x}, 0, "y", ours, theirs) == ""


def test_no_number_is_near_to_infinity() -> None:
    infinite, finite = np.array([np.inf, 1.0], np.float32), np.array([3.0, 1.0], np.float32)
    assert differs(finite, infinite) and differs(infinite, finite) and not differs(infinite, infinite)


def test_what_hangs_on_an_undefined_value_is_not_compared() -> None:
    drawn = case("g (float[1] x) => (float[1] y, float[1] z) { a = Exp(x)  y = Neg(a)  z = Neg(x) }", x=np.ones(1))
    assert tainted(drawn.model, frozenset({"a"})) == {"a", "y"}


def test_a_failing_graph_is_made_small() -> None:
    x = np.ones((2, 2), np.float32)
    text = "g (float[2, n] x) => (float[2, 2] y, float[2, 2] z) { a = Exp(x)  b = Cos(a)  y = Neg(b)  z = Abs(x) }"
    drawn = replace(case(text, x=x), settings=Settings(opt_level=1, threads=2, executor="vm"))
    small = minimize(drawn, lambda smaller: "Cos" in smaller.operators())
    assert small.operators() == ["Cos"] and small.settings == Settings() and list(small.feeds) == ["a"]
    assert small.model.graph.input[0].type.tensor_type.shape.dim[1].dim_value == 2


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = graphs.Record(tmp_path)
    graphs.run(range(3), record, smaller=False)
    kept = (tmp_path / "outcomes.jsonl").read_text()
    again = graphs.Record(tmp_path)
    assert again.outcomes == record.outcomes and len(kept.splitlines()) == 3
    graphs.run(range(3), again)
    assert (tmp_path / "outcomes.jsonl").read_text() == kept
    assert "| outcome | graphs |" in graphs.table(again.outcomes.values())


def test_causes_are_looked_up_by_operator_and_type() -> None:
    assert "samples" in cause_of_disagreement("LRN of float32")
    assert "wrap" in cause_of_disagreement("ReduceL2 of int64")
    assert cause_of_disagreement("Add of float32") == UNEXPLAINED


def judged(tmp_path: Path, seeds: range) -> list[str]:
    """Findings among the graphs of some seeds: wrong, crashed, raised or refused."""
    record = graphs.Record(tmp_path)
    graphs.run(seeds, record)
    bad = (worker.WRONG, worker.CRASH, worker.RAW, worker.TIMEOUT)
    return [f"seed {o.seed}: {o.outcome}: {o.message}" for o in record.outcomes.values() if o.outcome in bad]


def test_some_graphs_have_no_findings(tmp_path: Path) -> None:
    assert judged(tmp_path, range(100_000, 100_036)) == []


@pytest.mark.long
def test_two_thousand_graphs(tmp_path: Path) -> None:
    assert judged(tmp_path, range(200_000, 202_000)) == []


def test_time_is_the_workers_own() -> None:
    asleep = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        busy.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, busy.pid, os.WSTOPPED)
        stopped, waiting = OwnTime(busy.pid), OwnTime(asleep.pid)
        assert [stopped.look() for _ in range(20)] == [0.0] * 20
        while waiting.look() < 10 * LOOK:  # it computes until it waits for a line
            pass
        busy.send_signal(signal.SIGCONT)
        while stopped.look() < 0.05:
            pass
    finally:
        for process in (asleep, busy):
            process.kill()
            process.wait()


def test_a_case_that_takes_too_long_is_a_hang() -> None:
    hasty = Worker(0.0)
    assert hasty.run(0).outcome in (worker.NO_REFERENCE, worker.TIMEOUT)
    assert "still" in hasty.run(0).message


def test_a_number_beyond_16_bits_may_be_kept_until_it_is_rounded() -> None:
    rng, ends = np.random.default_rng(0), np.array([88, np.inf], np.float16)
    runs = [moved_results(rng, "Sinh", [ends], [np.array([np.inf, np.inf], np.float16)])[0] for _ in range(8)]
    assert {float(run[0]) for run in runs} == {np.inf, 65504.0}
    assert all(np.isinf(run[1]) for run in runs)
