"""Long sums in blocks: each block is summed apart, and what the blocks come to is added up in the same way.

So the rounding errors of a sum grow with the logarithm of its length. Templates, targets and programs of users need
nothing for that: what is a sum, and how long, is seen in the loops. Blocks depend on lengths alone, never on workers.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from tilewright.tir import op
from tilewright.tir.arith.analyzer import Analyzer
from tilewright.tir.buffer import Buffer
from tilewright.tir.expr import Add, BufferLoad, Expr, IntImm, Mul, Var
from tilewright.tir.stmt import (
    Allocate,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    PrimFunc,
    Stmt,
    While,
    seq,
)
from tilewright.tir.transform.accesses import accesses_of
from tilewright.tir.transform.affine import split_conjunction
from tilewright.tir.transform.statements import child_stmts, with_fields
from tilewright.tir.visitor import StmtRewriter, children, collect, collect_vars, substitute


@dataclass(frozen=True)
class Length:
    """Sums of up to `longest` terms are left as they are; longer ones are of blocks of up to `block` terms."""

    longest: int
    block: int


#: Sums wait for memory, so that short blocks cost nothing; products keep their tile in registers throughout a block.
SUM, PRODUCT = Length(64, 32), Length(1024, 512)
#: Devices have no cache for the sums of a tile that does not fit the registers beside that of a block.
PRODUCT_OF_DEVICE = Length(4096, 2048)

#: How often a symbolic length is split: a sum of 2³⁰ terms has no chain longer than one of 2¹⁵ in blocks of 32.
_SPLITS_OF_SYMBOLIC = 3
#: Elements that the sums of a block may take at most.
_MOST_ELEMENTS = 16384
#: Loops whose iterations run at the same time on several workers or threads.
_TOGETHER = (ForKind.PARALLEL, ForKind.THREAD_BINDING)


def block_sums(func: PrimFunc, product: Length = PRODUCT) -> PrimFunc:
    """`func` with long sums of floats in blocks; runs on flat buffers, before `vectorize_loop`.

                                                t = allocate(float32[16], "local")
                                                for k.block in range(32):
                                                    for j in vectorized(16):
                                                        t[j] = 0
        for k in range(1024):                       for k in range(k.block*32, k.block*32 + 32):
            for j in vectorized(16):        =>          for j in vectorized(16):
                c[j] = c[j] + a[k*16 + j]                   t[j] = t[j] + a[k*16 + j]
                                                    for j in vectorized(16):
                                                        c[j] = c[j] + t[j]

    A loop of symbolic length is there twice, as it was for short runs.
    """
    return _Blocker(product)(func)


@dataclass(frozen=True)
class _Site:
    """A store `buffer[index] = buffer[index] + term`, and what lies between a loop and it, from outside to inside."""

    store: BufferStore
    term: Expr
    around: tuple[For | Expr, ...]  # loops, and conditions that hold

    @property
    def data(self) -> list[For]:
        """The loops on which the index depends."""
        found = collect_vars(self.store.index)
        return [x for x in self.around if isinstance(x, For) and x.var in found]

    def chain(self, longest: int) -> int:
        """The number of terms that one element takes in an iteration of the loop; `longest` where that is symbolic, or
        more.
        """
        data = self.data
        counts = [_most(x.extent) for x in self.around if isinstance(x, For) and x not in data]
        return min(longest, math.prod(longest if n is None else n for n in counts))


@dataclass(frozen=True)
class _Part:
    """The sums of one block at a site: their buffer, and the statements that clear them, add to them and add them."""

    buffer: Buffer
    clear: Stmt
    update: BufferStore
    add: Stmt


class _Blocker(StmtRewriter):
    def __init__(self, product: Length) -> None:
        super().__init__()
        self.product = product

    def visit_For(self, node: For) -> Stmt:
        """The loop, in blocks where it is a long sum; those inside it first."""
        loop: For = self.rebuild(node)
        return self._blocked(loop) if loop.kind is ForKind.SERIAL else loop

    def _blocked(self, loop: For, splits: int = 0) -> Stmt:
        """`loop` in blocks; `splits` tells how often it was, as symbolic ones are split so often and no more."""
        found = _Sums(loop)
        length = self.product if any(_is_product(site.term) for site in found.sites) else SUM
        chain = max((site.chain(length.longest) for site in found.sites), default=0)
        constant = loop.extent.value if isinstance(loop.extent, IntImm) else None
        if chain == 0 or (constant is not None and constant * chain <= length.longest):
            return loop
        parts = {site: part for site in found.sites if (part := found.part(site)) is not None}
        if not parts or (constant is None and splits == _SPLITS_OF_SYMBOLIC):
            return loop
        blocks = self._blocked(_in_blocks(loop, parts, max(1, length.block // chain)), splits + 1)
        for part in parts.values():
            blocks = Allocate(part.buffer, blocks)
        if constant is not None or splits:
            return blocks
        return IfThenElse(loop.extent <= length.longest // chain, loop, blocks)


def _in_blocks(loop: For, parts: Mapping[_Site, _Part], factor: int) -> For:
    """The loop over blocks of up to `factor` iterations of `loop`, evenly shared out where their number is known."""
    count = op.floordiv(loop.extent + (factor - 1), factor)
    if isinstance(loop.extent, IntImm) and isinstance(count, IntImm):
        factor = -(-loop.extent.value // count.value)
    block = Var(f"{loop.var.name}_block", loop.var.dtype)
    rest = loop.extent - block * factor
    whole = isinstance(loop.extent, IntImm) and loop.extent.value % factor == 0
    extent = op.const(factor, rest.dtype) if whole else op.minimum(factor, rest)
    first = loop.min + block * factor
    body = _Replacer({id(site.store): part.update for site, part in parts.items()})(loop.body)
    inner = with_fields(loop, min=first, extent=extent, body=body)
    each = substitute(body, {loop.var: first}) if factor == 1 else inner
    clear, add = [part.clear for part in parts.values()], [part.add for part in parts.values()]
    return For(block, op.const(0, block.dtype), count, ForKind.SERIAL, seq(*clear, each, *add)).at(loop.position)


class _Sums:
    """The sums of a loop: the stores that accumulate, `sites`, if nothing else in the loop touches their elements."""

    def __init__(self, loop: For) -> None:
        self.bound = {loop.var}  # variables of the loop and within it
        self.touched: set[Buffer] = set()  # otherwise than by sites
        self.sites: list[_Site] = []
        self._visit(loop.body, ())
        times = Counter(id(site.store) for site in self.sites)
        self.touched |= {s.store.buffer for s in self.sites if times[id(s.store)] > 1 or not self._is_sum(s)}
        self.sites = [site for site in self.sites if site.store.buffer not in self.touched]

    def _visit(self, stmt: Stmt, around: tuple[For | Expr, ...]) -> None:
        if isinstance(stmt, BufferStore):
            term = _term(stmt)
            if term is None:
                self.touched.add(stmt.buffer)
            else:
                self.sites.append(_Site(stmt, term, around))
            self._note_reads(stmt.value if term is None else term, *stmt.indices)
            return
        self._note_reads(*[x for x in children(stmt) if isinstance(x, Expr)])
        if isinstance(stmt, For | LetStmt):
            self.bound.add(stmt.var)
        if isinstance(stmt, Allocate | DeclBuffer):
            self.touched.add(stmt.buffer)
        if isinstance(stmt, While):
            self.touched.update(accesses_of(stmt).writes)
        elif isinstance(stmt, IfThenElse):
            self._visit(stmt.then_case, (*around, stmt.condition))
            if stmt.else_case is not None:
                self._visit(stmt.else_case, (*around, op.logical_not(stmt.condition)))
        else:
            inside = (*around, stmt) if isinstance(stmt, For) else around
            for child in child_stmts(stmt):
                self._visit(child, inside)

    def _note_reads(self, *exprs: Expr) -> None:
        self.touched.update(load.buffer for load in collect(exprs, BufferLoad))

    def _is_sum(self, site: _Site) -> bool:
        """True if the element stays the same in all iterations but those of loops that count elements."""
        serial = all(x.kind not in _TOGETHER for x in site.around if isinstance(x, For))
        return serial and self.bound.isdisjoint(collect_vars(site.store.index).keys() - {x.var for x in site.data})

    def part(self, site: _Site) -> _Part | None:
        """The sums of a block at `site`; None where they are too many, or of a number that the loop changes."""
        own = {x.var: x for x in site.data}
        others = self.bound - own.keys()
        sizes = [_most(x.extent) for x in own.values()]
        ends = [end for x in own.values() for end in (x.min, x.extent)]
        if None in sizes or not others.isdisjoint(collect_vars(ends)):
            return None
        counts = [n for n in sizes if n is not None]
        if math.prod(counts) > _MOST_ELEMENTS:
            return None
        around: list[For | Expr] = []
        for x in site.around:
            kept = x if isinstance(x, For) else self._kept(x, own.keys(), others)
            if kept is None:
                return None
            if not isinstance(kept, For) or kept.var in own:
                around.append(kept)
        return _part(site, around, counts)

    def _kept(self, condition: Expr, own: AbstractSet[Var], others: AbstractSet[Var]) -> Expr | None:
        """The part of a condition that depends on the element alone; None if some depends on the iteration as well."""
        kept = op.const(True)
        for part in split_conjunction(condition):
            found = collect_vars(part).keys()
            varies = bool(found & others) or bool(collect(part, BufferLoad))
            if varies and found & own:
                return None
            kept = kept if varies else op.logical_and(kept, part)
        return kept


def _part(site: _Site, around: Sequence[For | Expr], counts: Sequence[int]) -> _Part:
    """The sums of a block; `around` are the loops over the elements of `site`, of `counts`, and their conditions."""
    store = site.store
    buffer = Buffer(f"{store.buffer.name}_block", [math.prod(counts)], store.buffer.dtype, "local")
    index: Expr = op.const(0, store.index.dtype)
    for loop, count in zip([x for x in around if isinstance(x, For)], counts, strict=True):
        index = index * count + (loop.var - loop.min)
    update = BufferStore(buffer, BufferLoad(buffer, [index]) + site.term, (index,)).at(store.position)
    clear: Stmt = BufferStore(buffer, op.const(0, buffer.dtype), (index,)).at(store.position)
    total = BufferLoad(store.buffer, store.indices) + BufferLoad(buffer, [index])
    add: Stmt = BufferStore(store.buffer, total, store.indices).at(store.position)
    return _Part(buffer, _around(clear, around), update, _around(add, around))


def _around(stmt: Stmt, around: Sequence[For | Expr]) -> Stmt:
    """`stmt` within loops like those given, over variables of their own, and under the conditions."""
    for each in reversed(around):
        if isinstance(each, For):
            own = Var(each.var.name, each.var.dtype)
            stmt = For(own, each.min, each.extent, each.kind, substitute(stmt, {each.var: own}))
        elif not op.is_const(each, 1):
            stmt = IfThenElse(each, stmt)
    return stmt


class _Replacer(StmtRewriter):
    """Stores replaced, by identity."""

    def __init__(self, stores: Mapping[int, BufferStore]) -> None:
        super().__init__()
        self.stores = stores

    def visit_BufferStore(self, node: BufferStore) -> Stmt:
        """The replacement of the store."""
        return self.stores.get(id(node), node)


def _term(store: BufferStore) -> Expr | None:
    """The term that `store` adds to the float it stores to; None where it does something else."""
    value = store.value
    if not isinstance(value, Add) or not store.buffer.dtype.is_float or len(store.indices) != 1:
        return None
    return value.b if _is_old(value.a, store) else value.a if _is_old(value.b, store) else None


def _is_old(value: Expr, store: BufferStore) -> bool:
    """True if `value` is what `store` overwrites."""
    return isinstance(value, BufferLoad) and value.buffer is store.buffer and value.indices[0] is store.index


def _is_product(term: Expr) -> bool:
    """True for a product of two values from memory that are not the same."""
    return isinstance(term, Mul) and term.a is not term.b and all(collect(x, BufferLoad) for x in (term.a, term.b))


def _most(extent: Expr) -> int | None:
    """The largest that an extent may be, where that is known."""
    return extent.value if isinstance(extent, IntImm) else Analyzer().const_int_bound(extent)[1]
