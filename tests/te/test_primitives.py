"""Every primitive's docstring shows a program before and after a call: here the call is made and both are compared.

The graphs that the calls speak of are in `GRAPHS`; the programs are written on one line by `one_line`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest

from tilewright import te, tir
from tilewright.te.group import Group
from tilewright.te.schedule import Schedule
from tilewright.te.stage import Stage
from tilewright.tir import stmt as s
from tilewright.tir.transform.double_buffer import double_buffer
from tilewright.tir.transform.inject_prefetch import inject_prefetch
from tilewright.tir.transform.rolling_buffer import rolling_buffer
from tilewright.tir.transform.simplify import simplify

Graph = Callable[[], tuple[dict[str, Any], list[te.Tensor]]]


def _vector() -> tuple[dict[str, Any], list[te.Tensor]]:
    A = te.placeholder((64,), name="A")
    C = te.compute((64,), lambda i: A[i] + 1.0, name="C")
    return {"A": A, "C": C, "i": C.op.axis[0]}, [A, C]


def _matrix() -> tuple[dict[str, Any], list[te.Tensor]]:
    A = te.placeholder((4, 8), name="A")
    C = te.compute((4, 8), lambda i, j: A[i, j] + 1.0, name="C")
    i, j = C.op.axis
    return {"A": A, "C": C, "i": i, "j": j}, [A, C]


def _chain() -> tuple[dict[str, Any], list[te.Tensor]]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    return {"A": A, "B": B, "C": C, "i": C.op.axis[0]}, [A, C]


def _tiles() -> tuple[dict[str, Any], list[te.Tensor]]:
    """B is made four rows at a time, inside the loop o of C."""
    A = te.placeholder((16, 30), name="A")
    B = te.compute((16, 30), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((16, 30), lambda i, j: B[i, j] * 2.0, name="C")
    return {"A": A, "B": B, "C": C, "setup": "o, _ = s[C].split(C.op.axis[0], factor=4); s[B].compute_at(s[C], o)"}, [
        A,
        C,
    ]


def _pairs() -> tuple[dict[str, Any], list[te.Tensor]]:
    """Each C needs two B, of which the C before needed one."""
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((15,), lambda i: B[i] * B[i + 1], name="C")
    return {"A": A, "B": B, "C": C, "setup": "s[B].compute_at(s[C], C.op.axis[0])"}, [A, C]


def _longer() -> tuple[dict[str, Any], list[te.Tensor]]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((16,), lambda i: C[i] - 3.0, name="D")
    return {"A": A, "B": B, "C": C, "D": D, "i": D.op.axis[0]}, [A, D]


def _rows() -> tuple[dict[str, Any], list[te.Tensor]]:
    A = te.placeholder((4, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="C")
    return {"A": A, "C": C, "i": C.op.axis[0], "k": k}, [A, C]


def _intrinsic() -> tuple[dict[str, Any], list[te.Tensor]]:
    names, args = _matrix()
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] + 1.0, name="y")

    def emit(ins: list[Any], outs: list[Any]) -> tir.Stmt:
        call = tir.call_extern("int32", "plus_one", outs[0].access_ptr("w"), ins[0].access_ptr("r"))
        return tir.Evaluate(call)

    return {**names, "plus_one": te.decl_tensor_intrin(y.op, emit, "plus_one")}, args


GRAPHS: dict[str, Graph] = {
    "split": _vector,
    "vectorize": _vector,
    "unroll": _vector,
    "parallel": _vector,
    "bind": _vector,
    "pragma": _vector,
    "set_store_predicate": _vector,
    "env_threads": _vector,
    "fuse": _matrix,
    "reorder": _matrix,
    "tile": _matrix,
    "prefetch": _matrix,
    "tensorize": _intrinsic,
    "compute_at": _chain,
    "compute_inline": _chain,
    "compute_root": _chain,
    "set_scope": _chain,
    "cache_read": _vector,
    "cache_write": _rows,
    "rfactor": _rows,
    "double_buffer": _tiles,
    "rolling_buffer": _pairs,
    "storage_align": _tiles,
    "create_group": _longer,
    "Group.compute_at": _longer,
    "Group.compute_root": _longer,
}


def one_line(stmt: Any) -> str:
    """A program on one line: bodies of several statements in parentheses, allocations where they say something."""
    if isinstance(stmt, s.SeqStmt):
        return "(" + "; ".join(map(one_line, stmt.stmts)) + ")"
    if isinstance(stmt, s.For):
        kind = {"serial": "range", "thread_binding": stmt.thread}.get(stmt.kind.value, stmt.kind.value)
        notes = "".join(f" [{k}={v}]" for k, v in stmt.annotations.items())
        return f"for {stmt.var.name} in {kind}({stmt.extent!r}){notes}: {one_line(stmt.body)}"
    if isinstance(stmt, s.IfThenElse):
        return f"if {stmt.condition!r}: {one_line(stmt.then_case)}"
    if isinstance(stmt, s.Allocate):
        buffer = stmt.buffer
        strides = f" strides {buffer.strides!r}" if buffer.strides else ""
        return f"{buffer.name} in {buffer.scope}{list(buffer.shape)}{strides}: {one_line(stmt.body)}"
    return repr(stmt).strip()


def program(schedule: te.Schedule, args: list[te.Tensor]) -> str:
    """The text of what the schedule computes, its requests for buffers and prefetches met, simplified, on one line."""
    func = te.schedule_to_tir(schedule, args)
    for transform in (rolling_buffer, double_buffer, inject_prefetch, simplify):
        func = transform(func)
    text = one_line(func.body)
    return text[1:-1] if text.startswith("(") else text


def _primitives() -> dict[str, Any]:
    found = {}
    for cls, prefix in ((Schedule, ""), (Stage, ""), (Group, "Group.")):
        for name, member in vars(cls).items():
            if hasattr(member, "__wrapped__"):
                found[prefix + name] = member
    return found


def _example(doc: str) -> dict[str, str]:
    """The parts of the docstring's example: before, call, after."""
    text = " ".join(textwrap.dedent(doc).split())
    found = re.search(r"before: (.*?) call: (.*?) after: (.*)$", text)
    assert found is not None, f"the docstring has no example:\n{doc}"
    return dict(zip(("before", "call", "after"), found.groups(), strict=True))


def run_example(name: str, call: str) -> tuple[str, str]:
    """The program before and after the call."""
    names, args = GRAPHS[name]()
    schedule = te.create_schedule(args[-1])
    scope = {"s": schedule, "te": te, "tir": tir, **names}
    exec(names.get("setup", ""), scope)
    before = program(schedule, args)
    exec(call, scope)
    return before, program(schedule, args)


@pytest.mark.parametrize("name", sorted(_primitives()))
def test_the_docstring_shows_what_the_primitive_does(name):
    assert name in GRAPHS, "a new primitive needs a graph for its example"
    example = _example(_primitives()[name].__doc__)
    before, after = run_example(name, example["call"])
    assert before == example["before"]
    assert after == example["after"]
