"""`tvm.tir.Schedule`: the schedule of a function by its blocks and loops, on this package's own schedules of tensors.

A block is a stage, a loop an axis of one. The functions that can be scheduled are those that remember what they
compute (`tensor_function.py`): of `te.create_prim_func`, and those of a script whose blocks each compute one buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright import te, tir
from tilewright.compat.ir.module import IRModule
from tilewright.compat.te.tensor_function import TensorFunction, fresh_schedule
from tilewright.errors import InputError, ScheduleError, UnsupportedError
from tilewright.support.named import named
from tilewright.te.attach import AttachType
from tilewright.te.itervar import IterType, IterVar
from tilewright.te.loop_relation import Fuse, Split
from tilewright.te.stage import Stage


@dataclass(frozen=True)
class BlockRV:
    """A block by its name."""

    name: str


@dataclass(frozen=True, eq=False)
class LoopRV:
    """A loop: an axis of a stage."""

    stage: Stage
    axis: IterVar

    def __repr__(self) -> str:
        return f"LoopRV({self.axis.name})"


def _marking(name: str, doc: str) -> Callable[[Schedule, LoopRV], None]:
    """The method that marks a loop as the stage's method of that name does."""

    def mark(self: Schedule, loop: LoopRV) -> None:
        here = self._at(loop)
        getattr(here.stage, name)(here.axis)

    return named(mark, name, doc)


class Schedule:
    """The schedule of one function of `mod` (a module, or the function), which it leaves as it is."""

    def __init__(self, mod: Any, *, seed: int | None = None, debug_mask: Any = "none", **_checks: Any) -> None:
        functions: dict[str, Any] = (
            {"main": mod} if isinstance(mod, tir.PrimFunc) else {f.name: f for f in mod.prim_funcs}
        )
        remembering = [name for name, func in functions.items() if isinstance(func, TensorFunction)]
        if not remembering:
            raise UnsupportedError(
                "tvm.tir.Schedule takes functions of te.create_prim_func, and of scripts whose blocks each compute one "
                "buffer; schedule others where they are written, or with te.create_schedule"
            )
        self._functions = functions
        self._name = "main" if "main" in remembering else remembering[0]
        self._blocks: dict[str, Stage] = {}
        self._moved: dict[tuple[Stage, IterVar], LoopRV] = {}
        self._start()

    def _start(self) -> None:
        func = self._functions[self._name]
        self._arguments = func.arguments
        self._schedule = fresh_schedule(self._arguments)
        self._blocks.clear()
        for stage in self._schedule.stages:
            if not isinstance(stage.op, te.PlaceholderOp):
                self._add(stage.name, stage)

    def _add(self, name: str, stage: Stage) -> BlockRV:
        """The block of a stage, by a name that is free."""
        chosen, number = name, 0
        while chosen in self._blocks:
            number += 1
            chosen = f"{name}_{number}"
        self._blocks[chosen] = stage
        return BlockRV(chosen)

    # ------------------------------------------------------------------------------------------------ looking around
    @property
    def mod(self) -> IRModule:
        """The module with the function as it is scheduled now; a function that came without a module is its "main"."""
        name, old = self._name, self._functions[self._name]
        made = TensorFunction(name, self._arguments, old.remarks, self._schedule)
        return IRModule({**self._functions, name: made})

    @property
    def trace(self) -> str:
        """The steps so far as text."""
        return self._schedule.to_text()

    def show(self, *_: Any, **__: Any) -> None:
        """Print the function as it is scheduled now."""
        print(self.mod)

    def work_on(self, func_name: str) -> None:
        """Go on with another function of the module, from its plain loops."""
        if not isinstance(self._functions.get(func_name), TensorFunction):
            raise InputError(f"there is no function {func_name!r} to schedule; there are {', '.join(self._functions)}")
        self._functions = {f.name: f for f in self.mod.prim_funcs}
        self._name = func_name
        self._start()

    def get_block(self, name: str, func_name: str | None = None) -> BlockRV:
        """The block called `name`. Raises `InputError` where there is none."""
        if func_name is not None and func_name != self._name:
            self.work_on(func_name)
        if name not in self._blocks:
            raise InputError(f"there is no block {name!r}; there are {', '.join(self._blocks)}")
        return BlockRV(name)

    def _stage(self, block: Any) -> Stage:
        name = block if isinstance(block, str) else block.name
        if name not in self._blocks:
            raise InputError(f"{name} is no block of this schedule that can be changed; see {', '.join(self._blocks)}")
        return self._blocks[name]

    def get_loops(self, block: Any) -> list[LoopRV]:
        """The loops around a block, from outer to inner; those that another block is computed in are its too."""
        return self._loops(self._stage(block))

    def _loops(self, stage: Stage) -> list[LoopRV]:
        around: list[LoopRV] = []
        if stage.attach_type is AttachType.AT and stage.attach_stage is not None:
            outer = self._loops(stage.attach_stage)
            last = next(i for i, loop in enumerate(outer) if loop.axis is stage.attach_ivar)
            around = outer[: last + 1]
        own = [LoopRV(stage, axis) for axis in stage.leaf_iter_vars if (stage, axis) not in self._moved]
        return [*around, *own]

    def get_producers(self, block: Any) -> list[BlockRV]:
        """The blocks that compute what a block reads."""
        read = {tensor.op for tensor in self._stage(block).op.input_tensors}
        return [BlockRV(name) for name, stage in self._blocks.items() if stage.op in read or stage.origin_op in read]

    def get_consumers(self, block: Any) -> list[BlockRV]:
        """The blocks that read what a block computes."""
        made = set(self._stage(block).outputs)
        return [BlockRV(n) for n, stage in self._blocks.items() if not made.isdisjoint(stage.op.input_tensors)]

    def _at(self, loop: LoopRV) -> LoopRV:
        """The current position of a loop: `reverse_compute_at` makes it one of the block that moved."""
        while (loop.stage, loop.axis) in self._moved:
            loop = self._moved[loop.stage, loop.axis]
        return loop

    # ---------------------------------------------------------------------------------------------------------- loops
    def split(self, loop: LoopRV, factors: Sequence[Any], preserve_unit_iters: bool = True, **_: Any) -> list[LoopRV]:
        """A loop as several, with `factors` iterations each, from outer to inner; one None is what is left."""
        here = self._at(loop)
        open_positions = [position for position, factor in enumerate(factors) if factor is None]
        if len(open_positions) > 1 or len(factors) < 1:
            raise ScheduleError(f"split of {here.axis.name}: factors are numbers and at most one None")
        first = open_positions[0] if open_positions else 0
        rest = here.axis
        behind: list[IterVar] = []
        for factor in reversed(factors[first + 1 :]):
            rest, inner = here.stage.split(rest, factor=factor)
            behind.insert(0, inner)
        before = []
        for factor in factors[:first]:
            outer, rest = here.stage.split(rest, nparts=factor)
            before.append(outer)
        return [LoopRV(here.stage, axis) for axis in (*before, rest, *behind)]

    def fuse(self, *loops: LoopRV, preserve_unit_iters: bool = True) -> LoopRV:
        """Neighbouring loops, from outer to inner, as one."""
        stage, axes = self._together(loops, "fuse")
        return LoopRV(stage, stage.fuse(*axes))

    def reorder(self, *loops: LoopRV) -> None:
        """The loops in this order, from outer to inner, at the positions that they hold."""
        stage, axes = self._together(loops, "reorder")
        stage.reorder(*axes)

    def _together(self, loops: Sequence[LoopRV], what: str) -> tuple[Stage, list[IterVar]]:
        here = [self._at(loop) for loop in loops]
        if len({loop.stage for loop in here}) != 1:
            raise ScheduleError(f"{what}: the loops are of different blocks, {', '.join(x.stage.name for x in here)}")
        return here[0].stage, [loop.axis for loop in here]

    parallel = _marking("parallel", "The iterations shared out over workers.")
    vectorize = _marking("vectorize", "The iterations as lanes of vectors.")
    unroll = _marking("unroll", "The loop written out.")

    def bind(self, loop: LoopRV, thread_axis: Any) -> None:
        """The iterations each on one thread of an axis such as "threadIdx.x"."""
        here = self._at(loop)
        axis = te.thread_axis(thread_axis) if isinstance(thread_axis, str) else thread_axis
        here.stage.bind(here.axis, axis)

    def annotate(self, block_or_loop: Any, ann_key: str, ann_val: Any) -> None:
        """A hint on a loop. Raises `UnsupportedError` for one on a block."""
        if not isinstance(block_or_loop, LoopRV):
            raise UnsupportedError(f"annotate: hints such as {ann_key} stand on loops here")
        here = self._at(block_or_loop)
        here.stage.pragma(here.axis, ann_key.removeprefix("pragma_"), ann_val)

    def tensorize(self, block_or_loop: Any, tensor_intrin: Any, preserve_unit_iters: bool = True) -> None:
        """The loops from this one inwards as an intrinsic of `te.decl_tensor_intrin`.

        Raises `UnsupportedError` for one by its name.
        """
        if isinstance(tensor_intrin, str) or not isinstance(block_or_loop, LoopRV):
            raise UnsupportedError("tensorize takes a loop, and an intrinsic that te.decl_tensor_intrin made")
        here = self._at(block_or_loop)
        here.stage.tensorize(here.axis, tensor_intrin)

    # --------------------------------------------------------------------------------------------------------- blocks
    def compute_at(self, block: Any, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """A block computed inside a loop of a block that reads it, as much as is read there."""
        here = self._at(loop)
        self._stage(block).compute_at(here.stage, here.axis)

    def reverse_compute_at(self, block: Any, loop: LoopRV, preserve_unit_loops: bool = False, index: int = -1) -> None:
        """A block computed inside a loop of the block that it reads, element by element, in the same shape.

        The loops down to that one become loops of `block`, in which the other is computed.
        """
        here, reader = self._at(loop), self._stage(block)
        if reader.relations:
            raise ScheduleError(f"reverse_compute_at of {reader.name}: do it before its loops are split or fused")
        replayed = _replay(here.stage, reader)
        outer = here.stage.leaf_iter_vars[: here.stage.leaf_iter_vars.index(here.axis) + 1]
        if any(axis.iter_type is not IterType.DATA_PAR for axis in outer):
            raise ScheduleError(f"reverse_compute_at of {reader.name}: {here.axis.name} is inside a reduction")
        inner = [axis for axis in here.stage.leaf_iter_vars if axis not in outer and axis in replayed]
        reader.reorder(*[replayed[axis] for axis in (*outer, *inner)])
        for axis in outer:
            _move_marks(here.stage, axis, reader, replayed[axis])
            self._moved[here.stage, axis] = LoopRV(reader, replayed[axis])
        here.stage.compute_at(reader, replayed[here.axis])

    def compute_inline(self, block: Any) -> None:
        """A block's expression wherever it is read."""
        self._stage(block).compute_inline()
        del self._blocks[block if isinstance(block, str) else block.name]

    def reverse_compute_inline(self, block: Any) -> None:
        """A block as part of the one that it reads, which must not be a reduction."""
        (producer,) = self.get_producers(block)
        stage = self._stage(producer)
        if stage.op.is_reduction:
            raise UnsupportedError(
                f"reverse_compute_inline of {block}: {producer.name} is a reduction; use reverse_compute_at"
            )
        self.compute_inline(producer)

    def cache_read(
        self, block: Any, read_buffer_index: int, storage_scope: str, consumer_blocks: Any = None
    ) -> BlockRV:
        """A block that copies what a block reads to memory `storage_scope`; all of `consumer_blocks` read the copy."""
        readers = [self._stage(one) for one in (consumer_blocks or [block])]
        tensor = self._stage(block).op.input_tensors[read_buffer_index]
        copy = self._schedule.cache_read(tensor, storage_scope, [stage.op for stage in readers])
        return self._add(f"{tensor.name}_{storage_scope}", self._schedule[copy])

    def cache_write(self, block: Any, write_buffer_index: int, storage_scope: str, **_: Any) -> BlockRV:
        """A block that copies what `block` computes, in memory `storage_scope`, to where it is read."""
        stage = self._stage(block)
        if stage.relations:
            raise ScheduleError(f"cache_write of {stage.name}: do it before its loops are split or fused")
        made = self._schedule.cache_write(list(stage.outputs), storage_scope)
        name = block if isinstance(block, str) else block.name
        self._blocks[name] = self._schedule[made[0]]
        return self._add(f"{name}_{storage_scope}", stage)

    def decompose_reduction(self, block: Any, loop: LoopRV) -> BlockRV:
        """The block of a reduction's initial values, which are stored before the reduction's loops anyway.

        It has no loops to change.
        """
        if not self._stage(block).op.is_reduction:
            raise ScheduleError(f"decompose_reduction of {block}: it is no reduction")
        return BlockRV(f"{block if isinstance(block, str) else block.name}_init")

    def rfactor(self, loop: LoopRV, factor_axis: int) -> BlockRV:
        """A reduction in two: a block of partial results, one for each iteration of `loop`, and the one that adds."""
        here = self._at(loop)
        made = self._schedule.rfactor(here.stage.outputs[0], here.axis, factor_axis)
        first = made[0] if isinstance(made, list | tuple) else made
        return self._add(f"{here.stage.origin_op.name}_rf", self._schedule[first])

    def set_scope(self, block: Any, buffer_index: int, storage_scope: str) -> None:
        """The memory that holds what a block computes."""
        self._stage(block).set_scope(storage_scope)

    def storage_align(self, block: Any, buffer_index: int, axis: int, factor: int, offset: int) -> None:
        """The stride of a dimension as a multiple of `factor`, plus `offset`."""
        stage = self._stage(block)
        stage.storage_align(stage.op.axis[axis], factor, offset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(
            f"tvm.tir.Schedule.{name} is not part of tilewright.compat; loops are changed by split, fuse, reorder, "
            "parallel, vectorize, unroll, bind, blocks by compute_at, compute_inline, cache_read, cache_write, rfactor"
        )


def _replay(source: Stage, reader: Stage) -> dict[IterVar, IterVar]:
    """The loops of `reader` that are made as the data loops of `source` were, whose elements it reads one by one."""
    (read,) = [indices for tensor, indices in reader.op.reads() if tensor in source.outputs] or [()]
    axes = [axis.var for axis in reader.op.axis]
    if [*read] != axes or reader.op.is_reduction:
        raise UnsupportedError(
            f"reverse_compute_at of {reader.name}: it must read {source.name} element by element, in the same shape"
        )
    made: dict[IterVar, IterVar] = dict(zip(source.op.axis, reader.op.axis, strict=True))
    for relation in source.relations:
        if isinstance(relation, Split) and relation.parent in made:
            parts = reader.split(made[relation.parent], factor=relation.factor, nparts=relation.nparts)
            made[relation.outer], made[relation.inner] = parts
        elif isinstance(relation, Fuse) and relation.outer in made:
            reader.reorder(made[relation.outer], made[relation.inner])
            made[relation.fused] = reader.fuse(made[relation.outer], made[relation.inner])
    return made


def _move_marks(source: Stage, axis: IterVar, reader: Stage, to: IterVar) -> None:
    """Move the annotations of a loop (parallel, bound, …) to the loop that replaces it."""
    attr = source.attrs.pop(axis, None)
    if attr is not None:
        reader.attrs[to] = attr
