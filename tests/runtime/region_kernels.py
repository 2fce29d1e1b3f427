"""A function of regions in LLVM IR text that checks how the pool deals out shares, and what ends it."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Sequence

import numpy as np

from tests.runtime.kernels import object_of
from tilewright.runtime.link import Linked, link
from tilewright.runtime.native import KINDS, Kind, native
from tilewright.runtime.threads import MAX_WORKERS

#: args: { log, kinds, delays, fails }: for each region the log has 4 + 256 words: shares begun, shares done, workers,
#: unused, and how often each share was done. A share fails with 5 where one is left out or there too soon, and with 9
#: in region `fails`. With `delays` 1 shares of some regions take long, sleep, or give their processor up.
_REGION = """
declare void @tilewright_barrier(ptr)
declare i32 @sched_yield()
declare i32 @usleep(i32)
%Context = type { i32, i32, ptr, i32 }
%Log = type { i64, i64, i64, i64, [256 x i64] }

define internal void @delay(i64 %region, i64 %worker, i64 %way) {
entry:
  %some = icmp ne i64 %way, 0
  br i1 %some, label %mix, label %done
mix:
  %clock = call i64 @llvm.readcyclecounter()
  %a = mul i64 %region, 7919
  %b = add i64 %a, %worker
  %c = xor i64 %b, %clock
  %d = mul i64 %c, 6364136223846793005
  %e = lshr i64 %d, 57
  switch i64 %e, label %spin [ i64 0, label %sleep
                               i64 1, label %sleep
                               i64 2, label %yield
                               i64 3, label %yield
                               i64 4, label %yield
                               i64 5, label %done ]
sleep:
  call i32 @usleep(i32 150)
  br label %done
yield:
  call i32 @sched_yield()
  br label %done
spin:
  %i = phi i64 [ 0, %mix ], [ %i.next, %spin ]
  %i.next = add i64 %i, 1
  %seen = call i64 asm sideeffect "", "=r,0"(i64 %i.next)
  %more = icmp ult i64 %seen, %e
  br i1 %more, label %spin, label %done
done:
  ret void
}
declare i64 @llvm.readcyclecounter()

define i32 @region(ptr %args, ptr %ctx) {
entry:
  %kinds.p = getelementptr ptr, ptr %args, i64 1
  %delays.p = getelementptr i64, ptr %args, i64 2
  %fails.p = getelementptr i64, ptr %args, i64 3
  %logs = load ptr, ptr %args
  %kinds = load ptr, ptr %kinds.p
  %delays = load i64, ptr %delays.p
  %fails = load i64, ptr %fails.p
  %workers.p = getelementptr %Context, ptr %ctx, i32 0, i32 1
  %region.p = getelementptr %Context, ptr %ctx, i32 0, i32 3
  %worker.32 = load i32, ptr %ctx
  %workers.32 = load i32, ptr %workers.p
  %region.32 = load i32, ptr %region.p
  %worker = zext i32 %worker.32 to i64
  %workers = zext i32 %workers.32 to i64
  %region = zext i32 %region.32 to i64
  %kind.p = getelementptr i8, ptr %kinds, i64 %region
  %kind = load i8, ptr %kind.p
  %log = getelementptr %Log, ptr %logs, i64 %region
  %done.p = getelementptr i64, ptr %log, i64 1
  %seen.p = getelementptr i64, ptr %log, i64 2
  %share.p = getelementptr %Log, ptr %log, i32 0, i32 4, i64 %worker
  %first = icmp eq i64 %region, 0
  br i1 %first, label %begin, label %before
before:                                           ; all that came before is done and can be seen
  %last = sub i64 %region, 1
  %last.log = getelementptr %Log, ptr %logs, i64 %last
  %last.done.p = getelementptr i64, ptr %last.log, i64 1
  %last.seen.p = getelementptr i64, ptr %last.log, i64 2
  %last.kind.p = getelementptr i8, ptr %kinds, i64 %last
  %last.done = load i64, ptr %last.done.p
  %last.workers = load i64, ptr %last.seen.p
  %last.kind = load i8, ptr %last.kind.p
  %last.alone = icmp eq i8 %last.kind, 2
  %wanted = select i1 %last.alone, i64 1, i64 %last.workers
  %complete = icmp eq i64 %last.done, %wanted
  br i1 %complete, label %begin, label %wrong
begin:
  atomicrmw add ptr %log, i64 1 monotonic
  store atomic i64 %workers, ptr %seen.p monotonic, align 8
  call void @delay(i64 %region, i64 %worker, i64 %delays)
  %meets = icmp eq i8 %kind, 1
  br i1 %meets, label %meet, label %finish
meet:
  call void @tilewright_barrier(ptr %ctx)
  %begun = load atomic i64, ptr %log monotonic, align 8
  %all = icmp eq i64 %begun, %workers
  br i1 %all, label %again, label %wrong
again:
  call void @delay(i64 %worker, i64 %region, i64 %delays)
  call void @tilewright_barrier(ptr %ctx)
  br label %finish
finish:
  %failing = icmp eq i64 %region, %fails
  br i1 %failing, label %fail, label %count
count:
  %times = load i64, ptr %share.p                 ; nobody else's: no atomic
  %times.next = add i64 %times, 1
  store i64 %times.next, ptr %share.p
  atomicrmw add ptr %done.p, i64 1 release
  ret i32 0
fail:
  ret i32 9
wrong:
  ret i32 5
}
"""

_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p
)


class Program:
    """Regions of the given kinds, run by the pool, and a check of what was done."""

    def __init__(self, kinds: Sequence[Kind], delays: bool = True, fails: int = -1) -> None:
        self._linked: Linked = link(object_of(_REGION), ["region"], native().imports())
        self.kinds = list(kinds)
        self._numbers = np.array([KINDS[kind] for kind in kinds], np.uint8)
        self.log = np.zeros((len(kinds), 4 + MAX_WORKERS), np.int64)
        self.state = np.zeros(8, np.int64)
        self._args = np.array([self.log.ctypes.data, self._numbers.ctypes.data, delays, fails], np.int64)
        self._function = _RUN(native().addresses["tilewright_run"])

    def run(self, workers: int) -> int:
        """Run once, from a clean log; the code."""
        self.log[:] = 0
        numbers, args, state = (array.ctypes.data for array in (self._numbers, self._args, self.state))
        entry = self._linked.addresses["region"]
        return int(self._function(entry, numbers, len(self.kinds), args, workers, state))

    def check(self, workers: int, ended: int | None = None) -> None:
        """Every share of each region before `ended` was done once, and none behind it."""
        for region, (kind, row) in enumerate(zip(self.kinds, self.log)):
            begun, done, team = (int(value) for value in row[:3])
            if ended is not None and region >= ended:
                assert region == ended or begun == 0, (region, kind, begun)
                continue
            expected = 1 if kind == "alone" else team
            assert 1 <= team <= workers and begun == done == expected, (region, kind, begun, done, team)
            assert (row[4 : 4 + expected] == 1).all() and not row[4 + expected :].any(), (region, kind)


def stress(seconds: float, seed: int, most: int = 9) -> int:
    """Run programs of random kinds on random numbers of workers for so long; how many were run."""
    random = np.random.default_rng(seed)
    end = time.monotonic() + seconds
    count = 0
    names: list[Kind] = ["shared", "meeting", "alone"]
    while time.monotonic() < end:
        kinds = [names[i] for i in random.integers(0, 3, random.integers(1, 60))]
        fails = int(random.integers(0, len(kinds))) if random.random() < 0.2 else -1
        program = Program(kinds, bool(random.random() < 0.8), fails)
        for _ in range(int(random.integers(1, 6))):
            workers = int(random.integers(1, most))
            code = program.run(workers)
            assert code == (0 if fails < 0 else 9), (code, kinds, workers, fails)
            program.check(workers, None if fails < 0 else fails)
            count += 1
    return count
