"""Kernels in LLVM IR text for the runtime's tests: written by hand, in the ABI that the code generator emits."""

from __future__ import annotations

from typing import Any

from tilewright.codegen.native.pool_code import compile_text
from tilewright.runtime.manifest import Manifest

PRELUDE = """
declare void @tilewright_barrier(ptr)
%Context = type { i32, i32, ptr }
"""

# slots: x, y, n (i64), a (float): y[i] += a * x[i] over this worker's share
AXPY = (
    PRELUDE
    + """
define i32 @axpy__entry(ptr %slots, ptr %ctx) {
entry:
  %y.s = getelementptr i64, ptr %slots, i64 1
  %n.s = getelementptr i64, ptr %slots, i64 2
  %a.s = getelementptr i64, ptr %slots, i64 3
  %x = load ptr, ptr %slots
  %y = load ptr, ptr %y.s
  %n = load i64, ptr %n.s
  %a = load float, ptr %a.s
  %negative = icmp slt i64 %n, 0
  br i1 %negative, label %bad, label %split
bad:
  ret i32 1
split:
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %worker = load i32, ptr %ctx
  %workers = load i32, ptr %workers.p
  %w = zext i32 %worker to i64
  %ws = zext i32 %workers to i64
  %lo.n = mul i64 %n, %w
  %lo = sdiv i64 %lo.n, %ws
  %w.next = add i64 %w, 1
  %hi.n = mul i64 %n, %w.next
  %hi = sdiv i64 %hi.n, %ws
  br label %head
head:
  %i = phi i64 [ %lo, %split ], [ %i.next, %body ]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %body, label %done
body:
  %x.p = getelementptr float, ptr %x, i64 %i
  %y.p = getelementptr float, ptr %y, i64 %i
  %xv = load float, ptr %x.p
  %yv = load float, ptr %y.p
  %ax = fmul float %a, %xv
  %sum = fadd float %yv, %ax
  store float %sum, ptr %y.p
  %i.next = add i64 %i, 1
  br label %head
done:
  ret i32 0
}
"""
)

# slots: pointer to { i64 rounds, i64 counters[workers] }: in each round every worker adds one to its own counter, meets
# the others, and fails with 7 if any of them lags behind or runs ahead by more than the rounds allow.
ROUNDS = (
    PRELUDE
    + """
define i32 @rounds__entry(ptr %slots, ptr %ctx) {
entry:
  %data = load ptr, ptr %slots
  %rounds = load i64, ptr %data
  %counters = getelementptr i64, ptr %data, i64 1
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %worker = load i32, ptr %ctx
  %workers = load i32, ptr %workers.p
  %own = getelementptr i64, ptr %counters, i32 %worker
  %next.worker = add i32 %worker, 1
  %neighbour = urem i32 %next.worker, %workers
  %other = getelementptr i64, ptr %counters, i32 %neighbour
  br label %round
round:
  %i = phi i64 [ 0, %entry ], [ %i.next, %good ]
  %i.next = add i64 %i, 1
  store i64 %i.next, ptr %own
  call void @tilewright_barrier(ptr %ctx)
  %seen = load i64, ptr %other
  %behind = icmp ne i64 %seen, %i.next
  br i1 %behind, label %bad, label %meet
meet:
  call void @tilewright_barrier(ptr %ctx)
  br label %good
good:
  %more = icmp slt i64 %i.next, %rounds
  br i1 %more, label %round, label %done
done:
  ret i32 0
bad:
  ret i32 7
}
"""
)

# Worker 1 fails before the barrier that worker 0 waits at.
DESERTER = (
    PRELUDE
    + """
define i32 @deserter__entry(ptr %slots, ptr %ctx) {
  %worker = load i32, ptr %ctx
  %deserts = icmp eq i32 %worker, 1
  br i1 %deserts, label %leave, label %stay
leave:
  ret i32 3
stay:
  call void @tilewright_barrier(ptr %ctx)
  call void @tilewright_barrier(ptr %ctx)
  ret i32 0
}
"""
)

# A little model of 8 elements: arena[i] = x[i] * w[i] | barrier | y[i] = arena[i] + b[i]; and z = number of workers.
# slots: x, y, z, weights { w[8], b[8] at byte 64 }, arena, scratch. Worker 0 computes; all meet.
MODEL = (
    PRELUDE
    + """
define internal void @each(ptr %p, ptr %q, ptr %r, i1 %mul) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %i.next, %body ]
  %pp = getelementptr float, ptr %p, i64 %i
  %qp = getelementptr float, ptr %q, i64 %i
  %rp = getelementptr float, ptr %r, i64 %i
  %pv = load float, ptr %pp
  %qv = load float, ptr %qp
  %product = fmul float %pv, %qv
  %sum = fadd float %pv, %qv
  %value = select i1 %mul, float %product, float %sum
  store float %value, ptr %rp
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, 8
  br i1 %more, label %body, label %done
done:
  ret void
}

define i32 @scale__entry(ptr %slots, ptr %ctx) {
  %w.s = getelementptr i64, ptr %slots, i64 1
  %y.s = getelementptr i64, ptr %slots, i64 2
  %x = load ptr, ptr %slots
  %w = load ptr, ptr %w.s
  %y = load ptr, ptr %y.s
  %worker = load i32, ptr %ctx
  %first = icmp eq i32 %worker, 0
  br i1 %first, label %work, label %done
work:
  call void @each(ptr %x, ptr %w, ptr %y, i1 1)
  br label %done
done:
  ret i32 0
}

; slots: arena, bias, y, z, scratch; also leaves the worker's number in its own scratch memory
define i32 @shift__entry(ptr %slots, ptr %ctx) {
  %b.s = getelementptr i64, ptr %slots, i64 1
  %y.s = getelementptr i64, ptr %slots, i64 2
  %z.s = getelementptr i64, ptr %slots, i64 3
  %own.s = getelementptr i64, ptr %slots, i64 4
  %a = load ptr, ptr %slots
  %b = load ptr, ptr %b.s
  %y = load ptr, ptr %y.s
  %z = load ptr, ptr %z.s
  %own = load ptr, ptr %own.s
  %worker = load i32, ptr %ctx
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %workers = load i32, ptr %workers.p
  store i32 %worker, ptr %own
  %first = icmp eq i32 %worker, 0
  br i1 %first, label %work, label %done
work:
  call void @each(ptr %a, ptr %b, ptr %y, i1 0)
  store i32 %workers, ptr %z
  %nan.p = load float, ptr %y
  %bad = fcmp uno float %nan.p, %nan.p
  %code = zext i1 %bad to i32
  ret i32 %code
done:
  ret i32 0
}

define i32 @main__entry(ptr %slots, ptr %ctx) {
  %y.s = getelementptr i64, ptr %slots, i64 1
  %z.s = getelementptr i64, ptr %slots, i64 2
  %w.s = getelementptr i64, ptr %slots, i64 3
  %arena.s = getelementptr i64, ptr %slots, i64 4
  %scratch.s = getelementptr i64, ptr %slots, i64 5
  %x = load ptr, ptr %slots
  %y = load ptr, ptr %y.s
  %z = load ptr, ptr %z.s
  %w = load ptr, ptr %w.s
  %arena = load ptr, ptr %arena.s
  %scratch = load ptr, ptr %scratch.s
  %worker = load i32, ptr %ctx
  %offset = mul i32 %worker, 64
  %own = getelementptr i8, ptr %scratch, i32 %offset
  %b = getelementptr i8, ptr %w, i64 64
  %scale = alloca [3 x ptr]
  %scale.1 = getelementptr ptr, ptr %scale, i64 1
  %scale.2 = getelementptr ptr, ptr %scale, i64 2
  store ptr %x, ptr %scale
  store ptr %w, ptr %scale.1
  store ptr %arena, ptr %scale.2
  %first = call i32 @scale__entry(ptr %scale, ptr %ctx)
  call void @tilewright_barrier(ptr %ctx)
  %shift = alloca [5 x ptr]
  %shift.1 = getelementptr ptr, ptr %shift, i64 1
  %shift.2 = getelementptr ptr, ptr %shift, i64 2
  %shift.3 = getelementptr ptr, ptr %shift, i64 3
  %shift.4 = getelementptr ptr, ptr %shift, i64 4
  store ptr %arena, ptr %shift
  store ptr %b, ptr %shift.1
  store ptr %y, ptr %shift.2
  store ptr %z, ptr %shift.3
  store ptr %own, ptr %shift.4
  %second = call i32 @shift__entry(ptr %shift, ptr %ctx)
  ret i32 %second
}
"""
)

DATA: dict[str, Any] = {
    "format": "tilewright-artifact",
    "version": 2,
    "target": "llvm -mcpu=test",
    "tilewright_version": "0.1.0",
    "inputs": [{"name": "x", "shape": [2, 4], "dtype": "float32"}],
    "outputs": [{"name": "y", "shape": [2, 4], "dtype": "float32"}, {"name": "z", "shape": [], "dtype": "int32"}],
    "arena_bytes": 64,
    "worker_workspace_bytes": 64,
    "weights": [{"name": "w", "offset": 0, "bytes": 32}, {"name": "b", "offset": 64, "bytes": 32}],
    "kernels": [
        {"name": "scale", "source": ["Mul_0"], "args": [["input", 0], ["weights", 0], ["arena", 0]]},
        {
            "name": "shift",
            "source": ["Add_1", "Size_2"],
            "args": [["arena", 0], ["weights", 64], ["output", 0], ["output", 1], ["scratch", 0]],
        },
    ],
    "entry": "main",
    "messages": ["the first output is not a number"],
}
MANIFEST = Manifest.from_json(DATA)

_objects: dict[str, bytes] = {}


def object_of(text: str) -> bytes:
    """The object code of a kernel text, compiled once for all tests."""
    if text not in _objects:
        _objects[text] = compile_text(text)
    return _objects[text]
