"""`relay.analysis.detect_feature`: which parts of the language a program uses."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from tilewright import relay
from tilewright.relay.ir.adt import Constructor, Match
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op
from tilewright.relay.ir.visitor import children, free_vars, post_order


class Feature(IntEnum):
    """A part of the language. `fGraph` is a value used several times, `fLetRec` a function that calls itself."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    fGraph = 15
    fLetRec = 16


_NODES: dict[type, Feature] = {
    relay.Var: Feature.fVar, relay.GlobalVar: Feature.fGlobalVar, relay.Constant: Feature.fConstant,
    relay.Tuple: Feature.fTuple, relay.TupleGetItem: Feature.fTupleGetItem, relay.Function: Feature.fFunction,
    relay.Call: Feature.fCall, relay.Let: Feature.fLet, relay.If: Feature.fIf, relay.RefCreate: Feature.fRefCreate,
    relay.RefRead: Feature.fRefRead, relay.RefWrite: Feature.fRefWrite, Match: Feature.fMatch,
    Constructor: Feature.fConstructor,
}  # fmt: skip


def detect_feature(a: Any, b: Any = None) -> set[Feature]:
    """The features of an expression, or of all functions of a module; the two may be given in either order."""
    subject = b if isinstance(a, IRModule) and b is not None else a
    if isinstance(subject, IRModule):
        return set().union(*(detect_feature(func) for func in subject.functions.values()))
    found: set[Feature] = set()
    uses: dict[Any, int] = {}
    for node in post_order(subject):
        found.add(_NODES[type(node)])
        if isinstance(node, relay.Call) and isinstance(node.op, Op):
            found.add(Feature.fOp)
        if isinstance(node, relay.Call) and isinstance(node.op, Constructor):
            found.add(Feature.fConstructor)
        if isinstance(node, relay.Let) and node.var in free_vars(node.value):
            found.add(Feature.fLetRec)
        for child in children(node):
            uses[child] = uses.get(child, 0) + 1
    shared = (node for node, count in uses.items() if count > 1)
    if any(not isinstance(node, relay.Var | relay.GlobalVar | Op | Constructor) for node in shared):
        found.add(Feature.fGraph)
    return found
