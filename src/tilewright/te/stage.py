"""One operation's part of a schedule: its axes, what was done to them, and where it is computed.

Every primitive checks what it is asked and raises `ScheduleError` naming the stage, the axis and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import ScheduleError
from tilewright.te.attach import AttachType
from tilewright.te.axis_attr import AxisAttr, HasAxisAttrs, Prefetch, first_loops
from tilewright.te.itervar import IterType, IterVar, as_index
from tilewright.te.loop_relation import Fuse, Relation, Singleton, Split
from tilewright.te.operation import ComputeOp, Operation, PlaceholderOp, reduces_by_lanes
from tilewright.te.scan import ScanOp
from tilewright.te.scope import check_scope
from tilewright.te.step import step
from tilewright.te.tensor import Tensor
from tilewright.tir import op as tir_op
from tilewright.tir.arith.range import Range
from tilewright.tir.expr import Expr, IntImm, Var
from tilewright.tir.stmt import ForKind

if TYPE_CHECKING:
    from tilewright.te.group import Group
    from tilewright.te.schedule import Schedule
    from tilewright.te.tensor_intrin import TensorIntrin


ROOT, INLINE, AT = AttachType


class Stage(HasAxisAttrs):
    """The schedule of one operation; made by `te.create_schedule`, reached as `s[tensor]`.

    `op` is the operation computed here (a cache primitive or inlining replaces it by another one than the user's
    `origin_op`), `outputs` the tensors that readers name, `leaf_iter_vars` the loops from outermost to innermost.
    """

    __slots__ = (
        "alignment", "attach_ivar", "attach_stage", "attach_type", "attrs", "double_buffered", "group", "is_output",
        "launch_threads", "leaf_iter_vars", "op", "origin_op", "outputs", "predicate", "prefetches", "relations",
        "rolling", "schedule", "scope",
    )  # fmt: skip

    def __init__(self, schedule: Schedule, op: Operation) -> None:
        self.schedule = schedule
        self.origin_op = self.op = op
        self.outputs = op.outputs
        self.relations: list[Relation] = []
        self.leaf_iter_vars, self.attrs = first_loops(op)
        self.attach_type = ROOT
        self.attach_stage: Stage | None = None
        self.attach_ivar: IterVar | None = None
        self.scope = ""
        self.is_output = False
        self.alignment: dict[IterVar, tuple[int, int]] = {}
        self.predicate: Expr | None = None
        self.double_buffered = False
        self.rolling = False
        self.prefetches: list[Prefetch] = []
        self.launch_threads: tuple[IterVar, ...] = ()
        self.group: Group | None = None

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.op.name

    @property
    def groups(self) -> Iterator[Group]:
        """The group it is in, the one that this is in, and so on."""
        group = self.group
        while group is not None:
            yield group
            group = group.group

    @property
    def reads(self) -> list[Tensor]:
        """The tensors that the operation reads, by itself and by what is inlined into it."""
        found = list(self.op.input_tensors)
        for source in found:
            stage = self.schedule[source]
            found += [t for t in stage.op.input_tensors if stage.attach_type == INLINE and t not in found]
        return found

    def __repr__(self) -> str:
        return f"Stage {self.name} ({', '.join(iv.name for iv in self.leaf_iter_vars)})"

    @property
    def all_iter_vars(self) -> list[IterVar]:
        """The axes of the operation, and those that splits and fusions made of them."""
        made = [axis for one in self.relations for axis in vars(one).values() if isinstance(axis, IterVar)]
        return list(dict.fromkeys([*self.op.axis, *self.op.reduce_axis, *made]))

    def attr(self, axis: IterVar) -> AxisAttr:
        """The annotations of the loop of `axis`."""
        return self.attrs.get(axis) or AxisAttr()

    # ------------------------------------------------------------------------------------------ loop structure
    @step
    def split(self, parent: IterVar, factor: Any = None, nparts: Any = None) -> tuple[IterVar, IterVar]:
        """Two loops in place of one: the inner of `factor` iterations, or the outer of `nparts`.

        Where the extent is not a multiple, the last block is guarded.

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s[C].split(i, factor=16)
        after: for i_outer in range(4): for i_inner in range(16): C[i_outer * 16 + i_inner] = A[i_outer * 16 +
            i_inner] + 1.0
        """
        at = self._position(parent, "split")
        self._no_scan(parent, "split")
        if (factor is None) == (nparts is None):
            raise ScheduleError(f"split of {self._axis(parent)}: pass either factor= or nparts=")
        self._must_be_plain(parent, "split")
        size = as_index(factor if factor is not None else nparts)
        if isinstance(size, IntImm) and size.value < 1:
            raise ScheduleError(f"split of {self._axis(parent)} by {size.value}: must be at least 1")
        dtype = parent.var.dtype
        outer = IterVar(None, Var(f"{parent.name}_outer", dtype), parent.iter_type)
        inner = IterVar(None, Var(f"{parent.name}_inner", dtype), parent.iter_type)
        by_factor = factor is not None
        self.relations.append(Split(parent, outer, inner, size if by_factor else None, None if by_factor else size))
        self.leaf_iter_vars[at : at + 1] = [outer, inner]
        self._move_attached((parent,), inner)
        return outer, inner

    @step
    def fuse(self, *axes: IterVar) -> IterVar:
        """One loop in place of adjacent nested ones (given from outer to inner); of none, a new one of one iteration.

        before: for i in range(4): for j in range(8): C[i, j] = A[i, j] + 1.0
        call: s[C].fuse(i, j)
        after: for i_j_fused in range(32): C[i_j_fused // 8, i_j_fused % 8] = A[i_j_fused // 8, i_j_fused % 8] +
            1.0
        """
        if not axes:
            return self._singleton()
        fused = axes[0]
        self._position(fused, "fuse")
        for inner in axes[1:]:
            fused = self._fuse_pair(fused, inner)
        return fused

    def _singleton(self) -> IterVar:
        axis = IterVar(Range(tir_op.const(0), tir_op.const(1)), Var("singleton"), IterType.DATA_PAR)
        self.relations.append(Singleton(axis))
        self.leaf_iter_vars.insert(0, axis)
        return axis

    def _fuse_pair(self, outer: IterVar, inner: IterVar) -> IterVar:
        at, below = self._position(outer, "fuse"), self._position(inner, "fuse")
        if below != at + 1:
            order = ", ".join(iv.name for iv in self.leaf_iter_vars)
            raise ScheduleError(
                f"fuse of {self._axis(outer)} with {inner.name}: the second must be the loop just inside the first; "
                f"the loops are ({order}); reorder them first"
            )
        if outer.iter_type is not inner.iter_type:
            raise ScheduleError(
                f"fuse of {self._axis(outer)} with {inner.name}: one is a reduction axis and the other is not"
            )
        self._no_scan(outer, "fuse")
        self._must_be_plain(outer, "fuse")
        self._must_be_plain(inner, "fuse")
        fused = IterVar(None, Var(f"{outer.name}_{inner.name}_fused", outer.var.dtype), outer.iter_type)
        self.relations.append(Fuse(outer, inner, fused))
        self.leaf_iter_vars[at : at + 2] = [fused]
        self._move_attached((outer, inner), fused)
        return fused

    @step
    def reorder(self, *axes: IterVar) -> None:
        """The given loops in the given order, from outer to inner, at the positions these loops hold now.

        before: for i in range(4): for j in range(8): C[i, j] = A[i, j] + 1.0
        call: s[C].reorder(j, i)
        after: for j in range(8): for i in range(4): C[i, j] = A[i, j] + 1.0
        """
        if len(set(axes)) != len(axes):
            raise ScheduleError(f"reorder in stage {self.name}: an axis is given twice")
        positions = sorted(self._position(axis, "reorder") for axis in axes)
        for position, axis in zip(positions, axes, strict=True):
            self.leaf_iter_vars[position] = axis

    @step
    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: Any, y_factor: Any
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Two loops split and reordered into blocks; returns (x_outer, y_outer, x_inner, y_inner).

        before: for i in range(4): for j in range(8): C[i, j] = A[i, j] + 1.0
        call: s[C].tile(i, j, 2, 4)
        after: for i_outer in range(2): for j_outer in range(2): for i_inner in range(2): for j_inner in
            range(4): C[i_outer * 2 + i_inner, j_outer * 4 + j_inner] = A[i_outer * 2 + i_inner, j_outer * 4 +
            j_inner] + 1.0
        """
        x_outer, x_inner = self.split(x_parent, factor=x_factor)
        y_outer, y_inner = self.split(y_parent, factor=y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    # ------------------------------------------------------------------------------------------ how loops run
    @step
    def vectorize(self, var: IterVar) -> None:
        """The iterations of `var` as the lanes of vector instructions; its extent must come out constant.

        A reduction axis may be vectorized if the reduction is one sum, product, minimum or maximum: each lane reduces
        its share, and the lanes are reduced at the end (which changes the rounding of a floating point sum).

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s[C].vectorize(i)
        after: for i in vectorized(64): C[i] = A[i] + 1.0
        """
        self._no_scan(var, "vectorize")
        if not reduces_by_lanes(self.op):
            self._no_reduction(var, "vectorize")
        self._set_kind(var, ForKind.VECTORIZED, "vectorize")

    @step
    def unroll(self, var: IterVar) -> None:
        """The loop of `var` written out; its extent must come out constant.

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s[C].unroll(i)
        after: for i in unrolled(64): C[i] = A[i] + 1.0
        """
        self._set_kind(var, ForKind.UNROLLED, "unroll")

    @step
    def parallel(self, var: IterVar) -> None:
        """The iterations of `var` shared out over the worker threads, in contiguous blocks.

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s[C].parallel(i)
        after: for i in parallel(64): C[i] = A[i] + 1.0
        """
        self._no_reduction(var, "parallel")
        self._set_kind(var, ForKind.PARALLEL, "parallel")

    @step
    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """The iterations of `ivar` each on one thread of the hardware axis `thread_ivar` (from `te.thread_axis`).

        A reduction axis may be bound to threads of a block: each reduces its part, then they combine the parts.

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s[C].bind(i, te.thread_axis("threadIdx.x"))
        after: for i in threadIdx.x(64): C[i] = A[i] + 1.0
        """
        if not isinstance(thread_ivar, IterVar) or thread_ivar.iter_type is not IterType.THREAD:
            raise ScheduleError(f"bind of {self._axis(ivar)}: needs a te.thread_axis; got {thread_ivar!r}")
        if not thread_ivar.thread_tag.startswith("threadIdx"):
            self._no_reduction(ivar, "bind")
        self._set_kind(ivar, ForKind.THREAD_BINDING, "bind")
        self.attrs[ivar].thread = thread_ivar

    @step
    def pragma(self, var: IterVar, pragma_type: str, pragma_value: Any = True) -> None:
        """The hint `pragma_type` = `pragma_value` on the loop of `var` (`For.annotations`), such as ``("unroll", 4)``.

        "vectorize", "unroll" and "parallel" without a value are the primitives of that name.

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s[C].pragma(i, "unroll", 4)
        after: for i in range(64) [unroll=4]: C[i] = A[i] + 1.0
        """
        mark = {"vectorize": self.vectorize, "unroll": self.unroll, "parallel": self.parallel}.get(pragma_type)
        if mark is not None and pragma_value is True:
            mark(var)
            return
        self._position(var, "pragma")
        self.attrs.setdefault(var, AxisAttr()).pragmas[pragma_type] = pragma_value

    @step
    def tensorize(self, var: IterVar, tensor_intrin: TensorIntrin) -> None:
        """The loops from `var` inwards replaced by the declared intrinsic, whose computation must match theirs.

        A second call takes another intrinsic for them.

        before: for i in range(4): for j in range(8): C[i, j] = A[i, j] + 1.0
        call: s[C].tensorize(j, plus_one)
        after: for i in range(4): call_extern("int32", 'plus_one', address_of(C[i, 0]), address_of(A[i, 0], 'r'))
        """
        if self.attr(var).intrin is None:
            self._set_kind(var, ForKind.SERIAL, "tensorize")
        self.attrs[var].intrin = tensor_intrin

    # -------------------------------------------------------------------------------- where and when computed
    @step
    def compute_at(self, parent: Any, scope: IterVar) -> None:
        """Computed inside the loop `scope` of the stage `parent`, only as much as is read there.

        before: B in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16): C[i] = B[i] * 2.0)
        call: s[B].compute_at(s[C], i)
        after: for i in range(16): B in global[1]: (B[0] = A[i] + 1.0; C[i] = B[0] * 2.0)
        """
        stage = parent if isinstance(parent, Stage) else self.schedule[parent]
        self.check_may_move("compute_at")
        if stage is self:
            raise ScheduleError(f"compute_at: stage {self.name} cannot be computed inside its own loop {scope.name}")
        if scope not in stage.leaf_iter_vars:
            order = ", ".join(iv.name for iv in stage.leaf_iter_vars)
            raise ScheduleError(
                f"compute_at of {self.name}: {scope.name} is not a loop of {stage.name}; its loops are ({order})"
            )
        self.attach_type, self.attach_stage, self.attach_ivar = AT, stage, scope

    @step
    def compute_inline(self) -> None:
        """No loops of its own: its expression stands wherever it is read.

        before: B in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16): C[i] = B[i] * 2.0)
        call: s[B].compute_inline()
        after: for i in range(16): C[i] = (A[i] + 1.0) * 2.0
        """
        self.check_may_move("compute_inline")
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(f"compute_inline of {self.name}: {self.op!r} is no expression; use compute_at")
        if self.op.is_reduction:
            raise ScheduleError(f"compute_inline of {self.name}: a reduction cannot be inlined; use compute_at")
        self.attach_type, self.attach_stage, self.attach_ivar = INLINE, None, None

    @step
    def compute_root(self) -> None:
        """Computed completely before its readers, at the top of the function (the default).

        before: B in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16): C[i] = B[i] * 2.0)
        call: s[B].compute_at(s[C], i); s[B].compute_root()
        after: B in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16): C[i] = B[i] * 2.0)
        """
        self.attach_type, self.attach_stage, self.attach_ivar = ROOT, None, None

    @step
    def set_scope(self, scope: str) -> None:
        """The memory that holds the result: ``"global"``, ``"local"``, ``"shared"`` or a scope the target declares.

        before: B in global[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16): C[i] = B[i] * 2.0)
        call: s[B].set_scope("local")
        after: B in local[16]: (for i in range(16): B[i] = A[i] + 1.0; for i in range(16): C[i] = B[i] * 2.0)
        """
        if self.is_output:
            raise ScheduleError(f"set_scope of {self.name}: an output of the schedule is in the caller's memory")
        check_scope(scope, f"set_scope of {self.name}")
        self.scope = scope

    @step
    def storage_align(self, axis: IterVar, factor: int, offset: int = 0) -> None:
        """The stride of dimension `axis` becomes a multiple of `factor`, plus `offset` (in elements).

        before: for i_outer in range(4): B in global[4, 30]: (for i in range(4): for j in range(30): B[i, j] =
            A[i_outer * 4 + i, j] + 1.0; for i_inner in range(4): for j in range(30): C[i_outer * 4 + i_inner,
            j] = B[i_inner, j] * 2.0)
        call: s[B].storage_align(B.op.axis[0], 32, 1)
        after: for i_outer in range(4): B in global[4, 30] strides (33, 1): (for i in range(4): for j in
            range(30): B[i, j] = A[i_outer * 4 + i, j] + 1.0; for i_inner in range(4): for j in range(30):
            C[i_outer * 4 + i_inner, j] = B[i_inner, j] * 2.0)
        """
        if not isinstance(self.op, ComputeOp) or axis not in self.op.axis:
            raise ScheduleError(f"storage_align of {self._axis(axis)}: must be one of op.axis")
        self.alignment[axis] = (factor, offset)

    @step
    def set_store_predicate(self, predicate: Expr) -> None:
        """Elements are stored only where `predicate`, an expression of the stage's axes, holds.

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s[C].set_store_predicate(i.var < 9)
        after: for i in range(64): if i < 9: C[i] = A[i] + 1.0
        """
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(f"set_store_predicate of {self.name}: {self.op!r} has no stores of its own")
        condition = tir_op.convert(predicate)
        if not condition.dtype.is_bool:
            raise ScheduleError(
                f"set_store_predicate of {self.name}: {condition!r} is {condition.dtype}, not a condition"
            )
        self.predicate = condition

    @step
    def prefetch(self, tensor: Tensor, var: IterVar, offset: int = 1, spread: bool = False) -> None:
        """Bring the region of `tensor` that the loop `var` reads to the cache `offset` iterations ahead; `spread`: the
        part that a loop around it moves on to, to the level-2 cache, a little in each iteration.

        before: for i in range(4): for j in range(8): C[i, j] = A[i, j] + 1.0
        call: s[C].prefetch(A, i, 2)
        after: for i in range(4): (prefetch(A[i + 2, 0]); for j in range(8): C[i, j] = A[i, j] + 1.0)
        """
        self._position(var, "prefetch")
        if self.schedule.tensor(tensor) not in self.reads:
            raise ScheduleError(f"prefetch of {tensor.name}: stage {self.name} does not read it")
        if offset < 1:
            where = f"prefetch of {tensor.name} in stage {self.name}"
            raise ScheduleError(f"{where}: {offset} iterations ahead; at least 1")
        self.prefetches.append(Prefetch(self.schedule.tensor(tensor), var, offset, spread))

    @step
    def double_buffer(self) -> None:
        """Two buffers used in turn, so that the next iteration's part is made while this one's is read.

        before: for i_outer in range(4): B in global[4, 30]: (for i in range(4): for j in range(30): B[i, j] =
            A[i_outer * 4 + i, j] + 1.0; for i_inner in range(4): for j in range(30): C[i_outer * 4 + i_inner,
            j] = B[i_inner, j] * 2.0)
        call: s[B].double_buffer()
        after: B in global[2, 4, 30]: (for i in range(4): for j in range(30): B[0, i, j] = A[i, j] + 1.0; for
            i_outer in range(4): (if i_outer < 3: for i in range(4): for j in range(30): B[(i_outer + 1) % 2, i,
            j] = A[i + i_outer * 4 + 4, j] + 1.0; for i_inner in range(4): for j in range(30): C[i_outer * 4 +
            i_inner, j] = B[i_outer % 2, i_inner, j] * 2.0))
        """
        self.check_may_move("double_buffer")
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(f"double_buffer of {self.name}: {self.op!r} makes its result whole")
        if self.rolling:
            raise ScheduleError(f"double_buffer of {self.name}: its buffer rolls along the loop")
        self.double_buffered = True

    @step
    def rolling_buffer(self) -> None:
        """Keep the region that the loop around the stage needs again in its next iteration, in a buffer that wraps
        around.

        before: for i in range(15): B in global[2]: (for i in range(2): B[i_1] = A[i + i_1] + 1.0; C[i] = B[0] *
            B[1])
        call: s[B].rolling_buffer()
        after: B in global[2]: for i in range(15): (for i in range(2): if likely(i == 0 or i_1 >= 1): B[(i + i_1) %
            2] = A[i + i_1] + 1.0; C[i] = B[i % 2] * B[(i + 1) % 2])
        """
        self.check_may_move("rolling_buffer")
        if not isinstance(self.op, ComputeOp):
            raise ScheduleError(f"rolling_buffer of {self.name}: {self.op!r} makes its result whole")
        if self.double_buffered:
            raise ScheduleError(f"rolling_buffer of {self.name}: it is double buffered")
        self.rolling = True

    @step
    def env_threads(self, threads: Sequence[IterVar]) -> None:
        """The stage runs on all the hardware threads `threads` (from `te.thread_axis` with an extent).

        before: for i in range(64): C[i] = A[i] + 1.0
        call: s[C].env_threads([te.thread_axis((0, 32), "threadIdx.x")])
        after: for threadIdx.x in threadIdx.x(32): for i in range(64): C[i] = A[i] + 1.0
        """
        for thread in threads:
            if not isinstance(thread, IterVar) or thread.iter_type is not IterType.THREAD or thread.dom is None:
                raise ScheduleError(f"env_threads of {self.name}: needs te.thread_axis((0, n), tag); got {thread!r}")
        self.launch_threads = tuple(threads)

    # ------------------------------------------------------------------------------------------------- checks
    def _axis(self, axis: Any) -> str:
        return f"axis {axis.name if isinstance(axis, IterVar) else repr(axis)} in stage {self.name}"

    def _position(self, axis: IterVar, what: str) -> int:
        if axis in self.leaf_iter_vars:
            return self.leaf_iter_vars.index(axis)
        if not isinstance(axis, IterVar):
            raise ScheduleError(f"{what} in stage {self.name}: {axis!r} is not an axis; take it from s[T].op.axis")
        for relation in self.relations:
            if isinstance(relation, Split) and relation.parent is axis:
                became = f"was split into {relation.outer.name} and {relation.inner.name}"
                raise ScheduleError(f"{what} of {self._axis(axis)}: it {became}; use one of those")
            if isinstance(relation, Fuse) and axis in (relation.outer, relation.inner):
                raise ScheduleError(f"{what} of {self._axis(axis)}: it was fused into {relation.fused.name}; use that")
        order = ", ".join(iv.name for iv in self.leaf_iter_vars)
        raise ScheduleError(f"{what} of {self._axis(axis)}: it is not one of the stage's loops ({order})")

    def _must_be_plain(self, axis: IterVar, what: str) -> None:
        if self.attr(axis).kind is not ForKind.SERIAL or self.attr(axis).intrin is not None:
            raise ScheduleError(f"{what} of {self._axis(axis)}: it is already {self.attr(axis).kind.value}")

    def _move_attached(self, old: Sequence[IterVar], new: IterVar) -> None:
        """Move stages attached inside one of the loops `old` into `new`, which replaces them."""
        for stage in self.schedule.stages:
            placed: list[Stage | Group] = [stage, *stage.groups]
            for one in placed:
                if one.attach_ivar in old:
                    one.attach_ivar = new

    def check_may_move(self, what: str) -> None:
        """Raises ScheduleError, naming the primitive `what`, if this stage has its position for good."""
        if isinstance(self.op, PlaceholderOp):
            raise ScheduleError(f"{what} of {self.name}: a placeholder is given by the caller, not computed")
        if isinstance(self.op, ScanOp) and what != "compute_at":
            raise ScheduleError(f"{what} of {self.name}: a scan makes its steps in place, one after the other")
        if any(stage.op.scan_reads(self.outputs) for stage in self.schedule.stages if isinstance(stage.op, ScanOp)):
            raise ScheduleError(f"{what} of {self.name}: it is a first step or an update of a scan, which attaches it")
        if self.is_output:
            raise ScheduleError(f"{what} of {self.name}: an output of the schedule is computed at the root")

    def _no_reduction(self, axis: IterVar, what: str) -> None:
        self._position(axis, what)
        self._no_scan(axis, what)
        if axis.iter_type is IterType.REDUCE:
            raise ScheduleError(
                f"{what} of {self._axis(axis)}: iterations of a reduction depend on each other; "
                "choose an axis of op.axis, or split the reduction into two te.compute"
            )

    def _no_scan(self, axis: IterVar, what: str) -> None:
        if axis.iter_type is IterType.ORDERED:
            raise ScheduleError(f"{what} of {self._axis(axis)}: the steps of a scan run one after the other, as a loop")

    def _set_kind(self, axis: IterVar, kind: ForKind, what: str) -> None:
        self._position(axis, what)
        attr = self.attrs.setdefault(axis, AxisAttr())
        if attr.kind not in (ForKind.SERIAL, kind) or attr.intrin is not None:
            state = "tensorized" if attr.intrin is not None else attr.kind.value
            raise ScheduleError(f"{what} of {self._axis(axis)}: it is already {state}")
        attr.kind = kind


def nested_in(stage: Stage) -> Sequence[tuple[Stage, IterVar]]:
    """The (stage, loop) pairs inside which `stage` is computed, from the innermost outwards.

    Raises ScheduleError if a stage is computed, through others, inside itself.
    """
    path: list[tuple[Stage, IterVar]] = []
    at = stage
    while at.attach_stage is not None and at.attach_ivar is not None:
        path.append((at.attach_stage, at.attach_ivar))
        at = at.attach_stage
        if at is stage or len(path) > len(stage.schedule.stages):
            raise ScheduleError(f"compute_at of {stage.name}: the stages are computed inside each other")
    return path
