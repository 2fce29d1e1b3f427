"""Tensorization: checks that loops compute what a declared intrinsic computes, and replaces them by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.errors import ScheduleError
from tilewright.te.itervar import IterVar
from tilewright.te.loop_nest import Nest
from tilewright.te.operation import ComputeOp
from tilewright.te.region import IndexEvaluator, Interval, point, to_expr
from tilewright.te.rewrite import BodyRewriter
from tilewright.te.tensor import Tensor
from tilewright.te.tensor_intrin import TensorIntrin
from tilewright.tir import expr as e
from tilewright.tir import op as tir_op
from tilewright.tir.arith.linear import Linear
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, Expr, IntImm, ProducerLoad, Reduce, Var
from tilewright.tir.stmt import BufferStore, Stmt
from tilewright.tir.visitor import Rewriter, children, collect_vars

Read = Callable[[Tensor, tuple[Expr, ...]], Expr]


@dataclass(frozen=True)
class Piece:
    """The part of `tensor` from `offset` on, along the dimensions `dims`."""

    tensor: Tensor
    offset: tuple[Expr, ...]
    dims: tuple[int, ...]


@dataclass(frozen=True)
class View:
    """The position of an intrinsic's buffer in a real one: `offset[d]` in dimension d, `dims` those it runs along."""

    buffer: Buffer
    offset: tuple[Expr, ...]
    dims: tuple[int, ...]


@dataclass
class Tensorized:
    """A stage's match with an intrinsic: the statements to put in place of the loops from `position` inwards."""

    position: int
    body: Stmt | None
    reset: Stmt | None
    update: Stmt | None
    covers_reduction: bool


def tensorized(
    nest: Nest, buffers: Mapping[Tensor, Buffer], whole: Collection[Tensor], read: Read
) -> Tensorized | None:
    """The match of a stage's loops with the intrinsic one of them is tensorized with; None if none is.

    `buffers` holds the stage's outputs, those in `whole` from the start of the tensor on, the others from the start of
    the stage's region; `read` turns a read of a tensor into the load of its buffer. Raises
    ScheduleError naming the axis, the intrinsic and the difference where they do not match.
    """
    for position, iv in enumerate(nest.leaves):
        intrin = nest.stage.attr(iv).intrin
        if intrin is not None:
            return _Match(nest, buffers, whole, read, position, intrin).result()
    return None


class _Match:
    """One attempt to match the loops from `position` inwards with `intrin`."""

    def __init__(
        self,
        nest: Nest,
        buffers: Mapping[Tensor, Buffer],
        whole: Collection[Tensor],
        read: Read,
        position: int,
        intrin: TensorIntrin,
    ) -> None:
        self.whole = whole
        assert isinstance(nest.op, ComputeOp)
        self.nest, self.stage, self.op, self.bounds = nest, nest.stage, nest.op, nest.bounds
        self.buffers, self.read, self.position, self.intrin = buffers, read, position, intrin
        self.values: dict[Var, Linear] = {}  # of the stage's axes, over the intrinsic's
        self.pieces: dict[Tensor, Piece] = {}  # by the intrinsic's input
        self.scalars: dict[Expr, Expr] = {}  # by the intrinsic's scalar parameters
        self.difference = ""  # the first reason why two reads did not match

    def fail(self, why: str) -> ScheduleError:
        """The error that says why they do not match."""
        axis = self.nest.leaves[self.position].name
        return ScheduleError(f"tensorize of axis {axis} in stage {self.stage.name} with {self.intrin.name}: {why}")

    def result(self) -> Tensorized:
        """The statements of the intrinsic on the stage's buffers."""
        self.values, starts = self._axes()
        mine, theirs = self.op.body, self.intrin.op.body
        if len(mine) != len(theirs):
            raise self.fail(f"the stage has {len(mine)} outputs, the intrinsic {len(theirs)}")
        for a, b in zip(mine, theirs, strict=True):
            if not self._same(b, a):
                raise self.fail(f"the stage computes {a!r}, the intrinsic {b!r}{self.difference}")
        views = self._input_views() | self._output_views(starts)
        rewriter = _Instantiate(views)
        rewriter.memo.update(self.scalars)
        reduce_positions = {p for p, iv in enumerate(self.nest.leaves) if iv.iter_type is IterVar.REDUCE}
        parts = [None if s is None else rewriter(s) for s in (self.intrin.body, self.intrin.reset, self.intrin.update)]
        inside = all(p >= self.position or self._once(p) for p in reduce_positions)
        if self.op.is_reduction and not (inside and parts[0] is not None) and parts[2] is None:
            raise self.fail("reduction loops lie outside, and the intrinsic has no update")
        return Tensorized(self.position, parts[0], parts[1], parts[2], inside and parts[0] is not None)

    def _once(self, position: int) -> bool:
        extent = self.bounds.extents[self.nest.leaves[position]]
        return isinstance(extent, IntImm) and extent.value == 1

    def _axes(self) -> tuple[dict[Var, Linear], dict[IterVar, tuple[Linear, bool]]]:
        """Values of the stage's axes over the intrinsic's, and per axis (start in the buffer, whether it runs)."""
        if any(g.level >= self.position for g in self.nest.guards):
            raise self.fail("its loops are guarded, because a split does not divide; choose factors that divide")
        running, steps = IndexEvaluator(), 1
        for position in range(self.position, len(self.nest.leaves)):
            extent = self.bounds.extents[self.nest.leaves[position]]
            if not isinstance(extent, IntImm):
                raise self.fail(f"the extent of {self.nest.leaves[position].name} is not constant")
            running.env[self.nest.loop_vars[position]] = Interval(Linear({}), extent.value - 1)
            steps *= extent.value
        values: dict[Var, Linear] = {}
        starts: dict[IterVar, tuple[Linear, bool]] = {}
        for mine, theirs in ((self.op.axis, self.intrin.op.axis), (self.op.reduce_axis, self.intrin.op.reduce_axis)):
            left = [iv for iv in theirs if not _is_size(iv, 1)]
            for iv in mine:
                interval = running.eval(self.nest.roots[iv])
                if interval is None:
                    raise self.fail(f"axis {iv.name} does not run along it evenly")
                start = self.bounds.mins[iv].plus(interval.lo)
                moves = bool(interval.width != 0)
                starts[iv] = (interval.lo, moves)
                if moves:
                    if not left or not _is_size(left[0], interval.width + 1):
                        wants = left[0].dom.extent if left and left[0].dom else "no further axis"
                        raise self.fail(f"axis {iv.name} runs {interval.width + 1} steps, the intrinsic has {wants!r}")
                    start = start.plus(Linear({left.pop(0).var: 1}))
                    assert isinstance(interval.width, int)
                    steps //= interval.width + 1
                values[iv.var] = start
            if left:
                raise self.fail(f"the intrinsic also runs along {left[0].name}; the loops inside do not")
        if steps != 1:
            raise self.fail("the loops inside do not run along whole axes")
        return values, starts

    # ------------------------------------------------------------------------------------------ same computation
    def _same(self, theirs: Expr, mine: Expr) -> bool:
        """True if the stage's expression is the intrinsic's, up to which tensors are read where."""
        if isinstance(theirs, Var) and theirs in self.intrin.scalars:
            return self._same_scalar(theirs, mine)
        if isinstance(theirs, Var):
            return self._same_axis(theirs, mine)
        if type(theirs) is not type(mine) or theirs.dtype is not mine.dtype:
            return False
        if isinstance(theirs, ProducerLoad) and isinstance(mine, ProducerLoad):
            return self._same_read(theirs, mine)
        if isinstance(theirs, Reduce) and isinstance(mine, Reduce):
            return self._same_reduction(theirs, mine)
        if isinstance(theirs, (e.IntImm, e.FloatImm, e.StringImm)):
            return theirs is mine
        if isinstance(theirs, e.Call) and isinstance(mine, e.Call) and theirs.op != mine.op:
            return False
        a, b = children(theirs), children(mine)
        if len(a) != len(b) or not a:
            return False
        if self._all_same(a, b):
            return True
        return isinstance(theirs, (e.Add, e.Mul, e.Min, e.Max)) and self._all_same(a, b[::-1])

    def _same_scalar(self, theirs: Var, mine: Expr) -> bool:
        """True if the stage's expression may be what a scalar parameter is: one value in the loops replaced."""
        value = BodyRewriter(self.nest.values, self.read)(mine)
        inside = set(self.nest.loop_vars[self.position :])
        if value.dtype is not theirs.dtype or not inside.isdisjoint(collect_vars(value)):
            self.difference = self.difference or f": {theirs.name} cannot be {mine!r}, which changes inside"
            return False
        return self.scalars.setdefault(theirs, value) is value

    def _same_axis(self, theirs: Var, mine: Expr) -> bool:
        """True if the stage's expression counts as an axis of the intrinsic does, from 0 on."""
        found = IndexEvaluator({var: point(value) for var, value in self.values.items()}).eval(mine)
        if found is None or found.lo.constant:
            return False
        return bool(found.width == 0) and found.lo.terms == {theirs: 1}

    def _all_same(self, theirs: Sequence[Any], mine: Sequence[Any]) -> bool:
        kept = dict(self.pieces), dict(self.scalars)
        if all(self._same(x, y) for x, y in zip(theirs, mine, strict=True)):
            return True
        self.pieces, self.scalars = kept
        return False

    def _same_reduction(self, theirs: Reduce, mine: Reduce) -> bool:
        if len(theirs.source) != len(mine.source) or theirs.value_index != mine.value_index:
            return False
        a = [Var(f"a{i}", s.dtype) for i, s in enumerate(theirs.source)]
        b = [Var(f"b{i}", s.dtype) for i, s in enumerate(theirs.source)]
        if any(x.dtype is not y.dtype for x, y in zip(theirs.source, mine.source, strict=True)):
            return False
        same_combiner = theirs.combiner.combine(a, b) == mine.combiner.combine(a, b)
        plain = isinstance(mine.condition, IntImm) and theirs.condition is mine.condition
        return same_combiner and plain and self._all_same(theirs.source, mine.source)

    def _same_read(self, theirs: ProducerLoad, mine: ProducerLoad) -> bool:
        """True if the stage reads a piece of a tensor in the way the intrinsic reads its input."""
        piece = self._piece(theirs, mine)
        return piece is not None and self.pieces.setdefault(theirs.producer, piece) == piece

    def _piece(self, theirs: ProducerLoad, mine: ProducerLoad) -> Piece | None:
        """The piece of the stage's tensor that the intrinsic's input stands for, from one read of each."""
        intrin_vars = {iv.var for iv in (*self.intrin.op.axis, *self.intrin.op.reduce_axis)}
        at = IndexEvaluator({var: point(value) for var, value in self.values.items()})
        own = IndexEvaluator({var: point(Linear({var: 1})) for var in intrin_vars})
        wanted = [i for i, n in zip(theirs.indices, theirs.producer.shape, strict=True) if not _is_one(n)]
        offsets: list[Expr] = []
        dims: list[int] = []
        for d, index in enumerate(mine.indices):
            index, looked_up = _parted(index, at)
            if looked_up and len(dims) < len(wanted):
                wanted[len(dims)], same = _parted(wanted[len(dims)], own)
                if len(same) != len(looked_up) or not self._all_same(same, looked_up):
                    return None
            interval = at.eval(index)
            total = Linear({index: 1}) if interval is None else interval.lo
            moving = {a: c for a, c in total.terms.items() if a in intrin_vars}
            rest = Linear({a: c for a, c in total.terms.items() if a not in intrin_vars}, total.constant)
            if moving or interval is None or looked_up:
                pattern = IndexEvaluator().affine(wanted[len(dims)]) if len(dims) < len(wanted) else Linear({})
                if dict(pattern.terms) != moving:
                    self.difference = (
                        self.difference or f": dimension {d} of {mine.producer.name} is indexed by {index!r}"
                    )
                    return None
                rest = rest.shifted(-pattern.constant)
                dims.append(d)
            offsets.append(to_expr(rest, index.dtype))
        if len(dims) != len(wanted):
            self.difference = (
                self.difference or f": {mine.producer.name} is read along {len(dims)} dimensions, not {len(wanted)}"
            )
            return None
        return Piece(mine.producer, tuple(offsets), tuple(dims))

    # ------------------------------------------------------------------------------------------------- views
    def _input_views(self) -> dict[Buffer, View]:
        buffers = dict(zip(self.intrin.inputs, self.intrin.input_buffers, strict=True))
        views = {}
        for tensor, piece in self.pieces.items():
            load = self.read(piece.tensor, piece.offset)
            assert isinstance(load, BufferLoad)
            views[buffers[tensor]] = View(load.buffer, load.indices, piece.dims)
        return views

    def _output_views(self, starts: Mapping[IterVar, tuple[Linear, bool]]) -> dict[Buffer, View]:
        dims = tuple(d for d, iv in enumerate(self.op.axis) if starts[iv][1])
        views = {}
        for tensor, intrin_buffer in zip(self.stage.outputs, self.intrin.output_buffers, strict=True):
            at = [starts[iv][0].plus(self.bounds.mins[iv], int(tensor in self.whole)) for iv in self.op.axis]
            offset = tuple(to_expr(x, iv.var.dtype) for x, iv in zip(at, self.op.axis, strict=True))
            actual = self.buffers[tensor]
            views[intrin_buffer] = View(actual, offset, dims)
        return views


class _Instantiate(Rewriter):
    """The intrinsic's statements with its buffers replaced by views of real ones."""

    def __init__(self, views: Mapping[Buffer, View]) -> None:
        super().__init__()
        self.views = views
        for intrin_buffer, view in views.items():
            self._bind_strides(intrin_buffer, view)

    def _bind_strides(self, intrin_buffer: Buffer, view: View) -> None:
        real = strides_of(view.buffer)
        kept = [d for d, n in enumerate(intrin_buffer.shape) if not _is_one(n)]
        for d, stride in enumerate(intrin_buffer.strides or ()):
            if isinstance(stride, Var):
                self.memo[stride] = real[view.dims[kept.index(d)]] if d in kept else tir_op.const(0)

    def _indices(self, intrin_buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Buffer, tuple[Expr, ...]]:
        view = self.views[intrin_buffer]
        kept = [self(i) for i, n in zip(indices, intrin_buffer.shape, strict=True) if not _is_one(n)]
        result = list(view.offset)
        for d, index in zip(view.dims, kept, strict=True):
            result[d] = _shifted(result[d], index)
        return view.buffer, tuple(result)

    def visit_BufferLoad(self, node: BufferLoad) -> Expr:
        """The load from the real buffer."""
        if node.buffer not in self.views:
            return self.generic(node)
        return BufferLoad(*self._indices(node.buffer, node.indices))

    def visit_Call(self, node: Call) -> Expr:
        """A call; the box of an access has as many extents as the real buffer has dimensions."""
        load = node.args[1] if node.op == "access_region" else None
        if not isinstance(load, BufferLoad) or load.buffer not in self.views:
            return self.generic(node)
        view = self.views[load.buffer]
        extents: list[Expr] = [tir_op.const(1)] * len(view.offset)
        kept = [self(n) for n, size in zip(node.args[2:], load.buffer.shape, strict=True) if not _is_one(size)]
        for d, extent in zip(view.dims, kept, strict=True):
            extents[d] = extent
        return Call(node.dtype, node.op, (node.args[0], self(load), *extents))

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """The store to the real buffer."""
        value = self(node.value)
        if node.buffer not in self.views:
            return BufferStore(node.buffer, value, tuple(self(i) for i in node.indices))
        buffer, indices = self._indices(node.buffer, node.indices)
        return BufferStore(buffer, value, indices)


def _parted(index: Expr, at: IndexEvaluator) -> tuple[Expr, list[Expr]]:
    """An index as the part that is even in its axes and its other summands, such as those read from memory."""
    summands = [index]
    while any(isinstance(x, e.Add) for x in summands):
        summands = [part for x in summands for part in ((x.a, x.b) if isinstance(x, e.Add) else (x,))]
    looked_up = [x for x in summands if at.eval(x) is None]
    if not looked_up:
        return index, []
    return sum((x for x in summands if x not in looked_up), start=tir_op.const(0, index.dtype)), looked_up


def strides_of(buffer: Buffer) -> tuple[Expr, ...]:
    """The strides of `buffer` in elements, compact row-major if it declares none."""
    if buffer.strides is not None:
        return buffer.strides
    strides: list[Expr] = []
    step: Expr = tir_op.const(1)
    for size in reversed(buffer.shape):
        strides.insert(0, step)
        step = step * size
    return tuple(strides)


def _shifted(offset: Expr, index: Expr) -> Expr:
    if isinstance(index, e.Ramp):
        return e.Ramp(offset + index.base, index.stride, index.lanes)
    return offset + index


def _is_one(size: Expr) -> bool:
    return isinstance(size, IntImm) and size.value == 1


def _is_size(iv: IterVar, size: object) -> bool:
    extent = None if iv.dom is None else iv.dom.extent
    return isinstance(extent, IntImm) and extent.value == size
