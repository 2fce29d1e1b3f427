"""Functions that repeat tensor operators run as native loops, and give what the interpreter of the graph gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.type import LIST, FuncType, TensorType, TupleType, TypeCall
from tilewright.relay.op.host import empty_list, push, stack_list
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.vm.executable import VirtualMachine

COUNT = TensorType((), "int64")


def _int(value: int) -> relay.Expr:
    return relay.const(np.int64(value))


def loop_of(collects: bool = True, branch_inside: bool = False, length: int = 4) -> relay.IRModule:
    """x := 0.5 x + y until its turns are over or x[0] is above 1.75; every other x is collected."""
    vector = TensorType((length,), "float32")
    name = relay.GlobalVar("repeat")
    i, n = relay.var("i", COUNT), relay.var("n", COUNT)
    x, y, spare = (relay.var(k, vector) for k in ("x", "y", "spare"))
    element = TypeCall(LIST, (vector,))
    found = relay.var("found", element)
    result = TupleType([vector, vector, *([element] if collects else [])])
    params = [i, n, x, y, spare, *([found] if collects else [])]
    name.set_inferred_type(FuncType([p.type_annotation for p in params], result))
    new = relay.add(relay.multiply(x, relay.const(np.float32(0.5))), y)
    if branch_inside:
        new = relay.If(relay.less(i, _int(2)), new, y)
    first = relay.reshape(relay.strided_slice(x, begin=[0], end=[1]), newshape=[])
    test = relay.logical_and(relay.less(i, n), relay.less(first, relay.const(np.float32(1.75))))
    arguments = [relay.add(i, _int(1)), n, new, y, x, *([push(found, x)] if collects else [])]
    after = relay.Tuple([relay.negative(x), spare, *([found] if collects else [])])
    body = relay.If(test, relay.Call(name, arguments), after)
    start, turns = relay.var("start", vector), relay.var("turns", COUNT)
    rest = [empty_list(vector)] if collects else []
    whole = relay.Call(name, [_int(0), turns, start, relay.const(np.ones(length, "float32")), start, *rest])
    results = [relay.TupleGetItem(whole, 0), relay.TupleGetItem(whole, 1)]
    results += [stack_list(relay.TupleGetItem(whole, 2), vector)] if collects else []
    functions = {name: relay.Function(params, body, result)}
    return infer_type(
        relay.IRModule({**functions, relay.GlobalVar("main"): relay.Function([start, turns], relay.Tuple(results))})
    )


def expected(start: np.ndarray, turns: int) -> list[np.ndarray]:
    x, spare, i, found = start, start, 0, []
    while i < turns and x[0] < np.float32(1.75):
        found.append(x)
        spare, x, i = x, x * np.float32(0.5) + np.float32(1), i + 1
    return [-x, spare, np.array(found, "float32").reshape(-1, 4)]


def loops(machine: Any) -> list[Any]:
    return [entry.loop for entry in machine.manifest.packed if entry.loop is not None]


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_every_number_of_turns(collects: bool, threads: int) -> None:
    machine = tw.compile(loop_of(collects), cache=False, threads=threads)
    assert isinstance(machine, VirtualMachine) and len(loops(machine)) == 1
    start = np.float32([-30, 1, 2, 3])
    for turns in (0, 1, 2, 3, 4, 20):
        got = machine.run({"start": start, "turns": np.array(turns)})
        for ours, wanted in zip(got, expected(start, turns)):
            np.testing.assert_array_equal(ours, wanted)
    np.testing.assert_array_equal(start, np.float32([-30, 1, 2, 3]))


def test_more_rows_than_there_was_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.runtime.vm.loop.FIRST_BYTES", 1)
    machine = tw.compile(loop_of(), cache=False)
    start = np.float32([-1e9, 0, 0, 0])
    for turns in (15, 16, 17, 33):
        got = machine.run({"start": start, "turns": np.array(turns)})
        for ours, wanted in zip(got, expected(start, turns), strict=True):
            np.testing.assert_array_equal(ours, wanted)


def test_many_turns_without_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.runtime.vm.loop._MANY", 7)
    machine = tw.compile(loop_of(collects=False), cache=False)
    start = np.float32([-1e30, 0, 0, 0])
    got = machine.run({"start": start, "turns": np.array(50)})
    for ours, wanted in zip(got, expected(start, 50)):
        np.testing.assert_array_equal(ours, wanted)


def test_a_body_with_a_branch_is_interpreted() -> None:
    machine = tw.compile(loop_of(branch_inside=True), cache=False)
    assert not loops(machine)
    start = np.float32([-30, 1, 2, 3])
    (x, *_), after = machine.run({"start": start, "turns": np.array(3)}), expected(start, 2)
    np.testing.assert_array_equal(x, -np.ones(4, "float32"))
    assert not np.array_equal(after[0], x)


def test_the_debugger_sees_every_operator() -> None:
    machine = tw.compile(loop_of(), cache=False, executor="debug")
    assert not loops(machine)


def test_a_loaded_loop(tmp_path: Path) -> None:
    tw.compile(loop_of(), cache=False).save(tmp_path / "loop.tw")
    machine = tw.load(tmp_path / "loop.tw")
    start = np.float32([-30, 1, 2, 3])
    for ours, wanted in zip(machine.run({"start": start, "turns": np.array(4)}), expected(start, 4), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    assert any(row.kernel == "loop" for row in machine.profile({"start": start, "turns": np.array(4)}))


@pytest.mark.parametrize("carried", [(0, 0, 0, 0, 0), (9,), (-2,), (1, 1, 1)])
def test_a_forged_loop_is_refused(carried: tuple[int, ...]) -> None:
    manifest = tw.compile(loop_of(), cache=False).manifest.to_json()
    for entry in manifest["packed"]:
        if entry.get("loop") is not None:
            entry["loop"]["carried"] = list(carried)
    with pytest.raises(tw.errors.ArtifactError):
        Manifest.from_json(manifest)
