"""The block of a graph's text in which each node is computed: the innermost that encloses all its uses.

A branch of an `If`, the right side of a clause, the body of a function and a `Let` that is not the last expression of
its block are blocks of their own. A node that two blocks use stands before the node that holds both, so that the text
has it once, as the graph does.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.relay.ir.adt import Constructor, Match
from tilewright.relay.ir.expr import Constant, Expr, Function, GlobalVar, If, Let, Var
from tilewright.relay.ir.nesting import innermost_around
from tilewright.relay.ir.visitor import children, post_order

#: What has no line of its own and may be written anywhere.
NAMES = (Var, GlobalVar, Constructor, Constant)


class Block:
    """One block: `holder` is the node that opens it, None for the outermost."""

    __slots__ = ("depth", "holder", "parent")

    def __init__(self, holder: Expr | None = None, parent: Block | None = None) -> None:
        self.holder = holder
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1


class Scopes:
    """Of the graph below `root`: how often each node is used, and what must stand before which node (`hoisted`)."""

    def __init__(self, root: Expr) -> None:
        self.uses: dict[Expr, int] = {root: 1}
        self.hoisted: dict[Expr, list[Expr]] = {}
        self._tails: set[Expr] = set()
        self._home: dict[Expr, Block] = {root: Block()}
        self._edges: list[tuple[Expr, Block]] = []
        self._mark_tail(root)
        order = post_order(root)
        for node in order:
            for kid in children(node):
                self.uses[kid] = self.uses.get(kid, 0) + 1
        for node in reversed(order):
            self._position_operands(node)
        for kid, block in reversed(self._edges):
            self._hoist(kid, block)

    def is_tail(self, node: Expr) -> bool:
        """True for a `Let` that is the last expression of its block, so that its lines are lines of the block."""
        return node in self._tails

    def _mark_tail(self, root: Expr) -> None:
        if isinstance(root, Let) and self.uses.get(root, 1) == 1:
            self._tails.add(root)

    def _position_operands(self, node: Expr) -> None:
        home = self._home[node]
        for kid, block, last in self._regions(node, home):
            if last:
                self._mark_tail(kid)
            if not isinstance(kid, NAMES):
                self._home[kid] = innermost_around(self._home[kid], block) if kid in self._home else block
                self._edges.append((kid, block))
            else:
                self._home.setdefault(kid, home)

    def _regions(self, node: Expr, home: Block) -> Iterator[tuple[Expr, Block, bool]]:
        """The operands of `node`, the block that uses each, and whether it is the last expression there."""
        kids = children(node)
        if isinstance(node, Function):
            yield from [(kid, Block(node, home), True) for kid in kids]
        elif isinstance(node, If | Match):
            yield kids[0], home, False
            yield from [(kid, Block(node, home), True) for kid in kids[1:]]
        elif isinstance(node, Let):
            inside = home if node in self._tails else Block(node, home)
            yield node.value, inside, False
            yield node.body, inside, True
        else:
            yield from [(kid, home, False) for kid in kids]

    def _hoist(self, node: Expr, block: Block) -> None:
        home = self._home[node]
        while block is not home:
            assert block.parent is not None and block.holder is not None
            if block.parent is home:
                before = self.hoisted.setdefault(block.holder, [])
                if node not in before:
                    before.append(node)
            block = block.parent
