"""Kernels that write over what they read: which may, in which order; a step in C that updates what the caller owns."""

from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.relay.transform.fuse.fuse_ops import fuse_ops
from tilewright.relay.transform.memory.in_place import UPDATES, update_in_place, written_over
from tilewright.relay.transform.memory.plan_memory import Where, plan_memory
from tilewright.training import AdamW, Averaged, Trainer, TrainingStep, export_step, training_step

SHAPE = (4, 8)


def _var(name: str, shape: tuple[int, ...] = SHAPE) -> relay.Var:
    return relay.var(name, shape=shape)


def _planned(params: list[relay.Var], results: list[Any], pairs: tuple[tuple[int, int], ...]) -> Any:
    main = relay.Function(params, relay.Tuple(results), attrs={UPDATES: pairs})
    mod = update_in_place(fuse_ops(relay.IRModule.from_expr(main)))
    return mod["main"], plan_memory(mod)


def test_an_update_comes_after_all_that_read_the_old_value() -> None:
    w, g, x = _var("w"), _var("g"), _var("x", (3, 8))
    main, plan = _planned([w, g, x], [w - g, relay.nn.dense(x, w)], ((0, 0),))
    assert written_over(main.body.fields[0]) == 0
    assert plan.order[-1] is main.body.fields[0] and not plan.copies
    assert plan.storage[main.body.fields[0]][0].where is Where.OUTPUT


@pytest.mark.parametrize("kind", ["turned", "both", "product"])
def test_other_results_are_copied_at_the_end(kind: str) -> None:
    w, g = _var("w", (8, 8)), _var("g", (8, 8))
    after = w - g
    results = {
        "turned": [relay.transpose(w) - g],  # reads other elements than it writes
        "both": [after, relay.nn.dense(after, w)],  # the old value is read with the new one
        "product": [relay.nn.dense(g, g) + w],  # of a kernel that goes over its result in tiles
    }[kind]
    main, plan = _planned([w, g], results, ((0, 0),))
    assert written_over(main.body.fields[0]) is None
    assert [(index, source.where) for source, index in plan.copies] == [(0, Where.ARENA)]


def test_a_result_that_is_the_old_value_is_refused() -> None:
    w, g = _var("w"), _var("g")
    with pytest.raises(UnsupportedError, match="w is updated in place, and result 1 is what it was before"):
        _planned([w, g], [w - g, w], ((0, 0),))


def _layers() -> TrainingStep:
    x, y = _var("x", (6, 5)), _var("y", (6, 2))
    v, c, w = _var("v", (7, 5)), _var("c", (7,)), _var("w", (2, 7))
    error = relay.nn.dense(relay.tanh(relay.nn.dense(x, v) + c), w) - y
    return training_step(relay.mean(error * error), [v, c, w], Averaged(AdamW(0.05)))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_library_holds_parameters_and_state_once(tmp_path: Path) -> None:
    step, draw = _layers(), np.random.default_rng(0)
    first = {p.name: draw.standard_normal(p.type_annotation.shape).astype("float32") for p in step.parameters}
    header = export_step(step, first, tmp_path / "libstep.so")
    text = next(Path(file) for file in header if str(file).endswith(".h")).read_text()
    own = sum(value.nbytes for value in (*first.values(), *step.state.values()))
    counts = re.findall(r"^  (?:float|int32_t|int64_t) \w+\[(\d+)\];", text, re.M)
    assert 4 * sum(map(int, counts)) == own and "int32_t turn" not in text
    size = int(re.search(r"WORKSPACE_SIZE (\d+)", text)[1])  # type: ignore[index]
    library = ctypes.CDLL(str(tmp_path / "libstep.so"))
    state, workspace = ctypes.create_string_buffer(own + 64), ctypes.create_string_buffer(size + 64)
    aligned = ctypes.c_void_p(-(-ctypes.addressof(workspace) // 64) * 64)
    stem = re.search(r"(tilewright_\w+)_init", text)[1]  # type: ignore[index]
    library[f"{stem}_init"](state)
    trainer, loss = Trainer(step, tw.compile(step.module), first), np.zeros(1, "float32")
    for _ in range(4):
        batch = {name: draw.standard_normal((6, n)).astype("float32") for name, n in (("x", 5), ("y", 2))}
        inputs = (ctypes.c_void_p * 2)(*(batch[v.name].ctypes.data for v in step.inputs))
        outputs = (ctypes.c_void_p * 1)(loss.ctypes.data)
        assert library[f"{stem}_step"](state, inputs, outputs, aligned, ctypes.c_size_t(size)) == 0
        np.testing.assert_allclose(loss[0], trainer(**batch)[0], rtol=1e-5)
    found = np.frombuffer(state.raw[: sum(v.nbytes for v in first.values())], "float32")
    wanted = np.concatenate([trainer.parameters[name].reshape(-1) for name in first])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
