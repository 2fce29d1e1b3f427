"""Dependence tokens between the units of a coprocessor that run at their own pace (OSDI 2018 paper, section 4.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.errors import ScheduleError
from tilewright.support.recursion import nested
from tilewright.tir import op
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import BufferLoad, Call, IntImm, StringImm, Var
from tilewright.tir.stmt import (
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    LetStmt,
    PrimFunc,
    SeqStmt,
    Stmt,
    While,
    seq,
)
from tilewright.tir.transform.box_accesses import Box, boxes_of, may_overlap
from tilewright.tir.transform.statements import child_stmts, walk, with_fields
from tilewright.tir.visitor import StmtRewriter, children, collect

KEY = "coproc_scope"
UNITS = {"load": 1, "compute": 2, "store": 3}

Queue = tuple[int, int]  # tokens from one unit to another

#: Which units pass tokens to which: neighbours.
LINKS: frozenset[Queue] = frozenset({(1, 2), (2, 1), (2, 3), (3, 2)})


def coproc_sync(func: PrimFunc, links: frozenset[Queue] = LINKS) -> PrimFunc:
    """`func` with a `dep_push(a, b)` by unit a and a `dep_pop(a, b)` by unit b wherever b must wait for a.

                                                        dep_push(2, 1)
        for k in range(8):                              for k in range(8):
            with attribute("coproc_scope", 1):              dep_pop(2, 1)
                T[…] = A[k, …]                  =>          T[…] = A[k, …]        # unit 1
            with attribute("coproc_scope", 2):              dep_push(1, 2)
                S[…] = S[…] + T[…]                          dep_pop(1, 2)
                                                            S[…] = S[…] + T[…]    # unit 2
                                                            dep_push(2, 1)
                                                        dep_pop(2, 1)

    An instruction is a statement under the attribute, or a loop with the pragma, "coproc_scope": a number from 1 or a
    name of `UNITS`. A unit runs its instructions in order; a pop waits for a token and takes it. Two instructions of
    different units depend on each other if they may touch the same part of a buffer and one of them writes. Runs on
    buffers of several dimensions, with virtual threads unrolled.

    Raises ScheduleError where units depend on each other that `links` does not join, where a statement outside of all
    instructions touches what units write, and for a unit that does not exist.
    """
    _check_outside(func.body)
    lets = frozenset(s.var for s in walk(func.body) if isinstance(s, LetStmt))
    return func.with_body(_Synchronizer(links, lets)(func.body))


class _Item(NamedTuple):
    """A statement of a block: what each unit accesses in it, and the queues it uses inside."""

    stmt: Stmt
    boxes: dict[int, list[Box]]
    queues: frozenset[Queue]


class _Token(NamedTuple):
    """Pushed after the item `producer`, popped before `consumer`; the next iteration's items are counted on."""

    producer: int
    consumer: int


class _Synchronizer(StmtRewriter):
    def __init__(self, links: frozenset[Queue], lets: frozenset[Var]) -> None:
        super().__init__()
        self.links, self.lets = links, lets

    def visit_Stmt(self, body: Stmt) -> Stmt:
        """`body`, which runs once, with its tokens."""
        return self._block(body, None)[0]

    @nested
    def _block(self, body: Stmt, loop: For | While | None) -> tuple[Stmt, list[Queue]]:
        """`body` with its tokens, and the queues on which a token must be there when the first iteration starts."""
        if "body" in body.FIELDS and not isinstance(body, For | While) and unit_of(body) is None:
            inside, carried = self._block(body.body, loop)  # type: ignore[attr-defined]
            return with_fields(body, body=inside), carried
        items = [self._item(s) for s in (body.stmts if isinstance(body, SeqStmt) else (body,))]
        pushes: dict[int, list[Stmt]] = {}
        pops: dict[int, list[Stmt]] = {}
        carried = []
        for queue in sorted({(a, b) for x in items for y in items for a in x.boxes for b in y.boxes if a != b}):
            for token in self._tokens(items, queue, loop):
                pushes.setdefault(token.producer, []).append(_call("dep_push", queue))
                pops.setdefault(token.consumer % len(items), []).append(_call("dep_pop", queue))
                carried += [queue] * (token.consumer // len(items))
        parts = [s for i, x in enumerate(items) for s in (*pops.get(i, ()), x.stmt, *pushes.get(i, ()))]
        return seq(*parts), carried

    def _item(self, stmt: Stmt) -> _Item:
        unit = unit_of(stmt)
        if unit is not None:
            marked = stmt if isinstance(stmt, AttrStmt) else AttrStmt(KEY, None, IntImm("int32", unit), _plain(stmt))
            return _Item(marked, {unit: boxes_of(stmt)}, frozenset())
        boxes: dict[int, list[Box]] = {}
        _gather(stmt, boxes, ())
        if not boxes:
            return _Item(stmt, boxes, frozenset())
        if isinstance(stmt, For | While):
            body, carried = self._block(stmt.body, stmt)
            before, after = [[_call(name, q) for q in carried] for name in ("dep_push", "dep_pop")]
            made = seq(*before, with_fields(stmt, body=body), *after)
        else:
            made = self.rebuild(stmt)
        return _Item(made, boxes, frozenset(_queues(made)))

    def _tokens(self, items: Sequence[_Item], queue: Queue, loop: For | While | None) -> list[_Token]:
        """The tokens of one queue: each is needed, and in both units they come in the same order."""
        first, second = queue
        count, found = len(items), set[_Token]()
        for later in (0, 1) if loop is not None else (0,):
            for i, x in enumerate(items):
                for j, y in enumerate(items):
                    if i >= j + later * count:
                        continue
                    clash = self._clash(x.boxes.get(first, ()), y.boxes.get(second, ()), loop if later else None)
                    if clash is not None:
                        self._check_link(queue, clash)
                        found.add(_Token(i, _before_other_use(items, queue, i, j + later * count)))
        return sorted(t for t in found if not any(_implies(u, t, count, loop is not None) for u in found))

    def _clash(self, first: Sequence[Box], second: Sequence[Box], moving: For | While | None) -> Buffer | None:
        """A buffer through which the second accesses depend on the first, `moving` having gone on in between."""
        for x in first:
            for y in second:
                if x.buffer is y.buffer and (x.writes or y.writes) and may_overlap(x, y, moving, self.lets):
                    return x.buffer
        return None

    def _check_link(self, queue: Queue, buffer: Buffer) -> None:
        if queue not in self.links:
            names = {number: name for name, number in UNITS.items()}
            first, second = (names.get(u, str(u)) for u in queue)
            raise ScheduleError(
                f"coproc_sync: unit {second} depends on unit {first} through {buffer.name}, and no queue of tokens "
                "joins them; put a stage of the unit between them in between"
            )


def unit_of(stmt: Stmt) -> int | None:
    """The unit that runs `stmt` as one instruction, or None if it is none. Raises ScheduleError for an unknown unit."""
    if isinstance(stmt, AttrStmt) and stmt.key == KEY:
        value = stmt.value
    elif isinstance(stmt, For) and KEY in stmt.annotations:
        value = stmt.annotations[KEY]
    else:
        return None
    value = value.value if isinstance(value, IntImm | StringImm) else value
    value = UNITS.get(value, 0) if isinstance(value, str) else value
    if not isinstance(value, int) or value < 1:
        given = stmt.value if isinstance(stmt, AttrStmt) else stmt.annotations[KEY]
        raise ScheduleError(f"{KEY}: there is no unit {given!r}; units are {', '.join(UNITS)}, or a number from 1")
    return value


def _plain(loop: Stmt) -> Stmt:
    assert isinstance(loop, For)
    return with_fields(loop, annotations={k: v for k, v in loop.annotations.items() if k != KEY})


@nested
def _gather(stmt: Stmt, boxes: dict[int, list[Box]], loops: tuple[For, ...]) -> None:
    """Notes by unit what the instructions below `stmt` access, as `loops` around them run."""
    unit = unit_of(stmt)
    if unit is not None:
        boxes.setdefault(unit, []).extend(boxes_of(stmt, loops))
        return
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    for child in child_stmts(stmt):
        _gather(child, boxes, inside)


def _before_other_use(items: Sequence[_Item], queue: Queue, producer: int, consumer: int) -> int:
    """The position of the pop: before an item that uses the queue for itself, since its pops would take this token."""
    between = range(producer + 1, consumer)
    return next((p for p in between if queue in items[p % len(items)].queues), consumer)


def _implies(strong: _Token, weak: _Token, count: int, repeated: bool) -> bool:
    """True if `weak` need not be, `strong` being there, in the same iteration or another."""
    for shift in (-2 * count, -count, 0, count, 2 * count) if repeated else (0,):
        moved = _Token(strong.producer + shift, strong.consumer + shift)
        if moved != weak and moved.producer >= weak.producer and moved.consumer <= weak.consumer:
            return True
    return False


def _call(name: str, queue: Queue) -> Stmt:
    return Evaluate(Call("int32", name, tuple(op.const(unit) for unit in queue)))


def _queues(stmt: Stmt) -> list[Queue]:
    """The queues on which tokens are passed within `stmt`."""
    calls = [s.value for s in walk(stmt) if isinstance(s, Evaluate) and isinstance(s.value, Call)]
    return [(c.args[0].value, c.args[1].value) for c in calls if c.op == "dep_push"]  # type: ignore[attr-defined]


def _check_outside(body: Stmt) -> None:
    """Everything that touches what units write is an instruction: nothing else waits for tokens."""
    boxes: dict[int, list[Box]] = {}
    _gather(body, boxes, ())
    written = {box.buffer for unit in boxes.values() for box in unit if box.writes}

    stack = [body]
    while stack:
        stmt = stack.pop()
        if unit_of(stmt) is not None:
            continue
        stack.extend(child_stmts(stmt))
        touched = {x.buffer for x in collect([x for x in children(stmt) if not isinstance(x, Stmt)], BufferLoad)}
        touched |= {stmt.buffer} if isinstance(stmt, BufferStore) else set()
        for buffer in touched & written:
            raise ScheduleError(
                f"coproc_sync: {buffer.name} is written by a unit and accessed by a statement of no unit; mark the "
                f'loops of that stage with the pragma "{KEY}"'
            )
