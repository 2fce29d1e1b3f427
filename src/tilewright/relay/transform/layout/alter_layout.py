"""Layouts over the whole graph: activations of convolutional networks run blocked by channels.

Before: %0 = nn.conv2d(%x, w0); %1 = nn.relu(%0); nn.conv2d(%1, w1)                               (NCHW, OIHW)
After:  %0 = nn.conv2d(%x, w0', data_layout="NCHW", kernel_layout="OIHW16o", out_layout="NCHW16c");
        %1 = nn.relu(%0);
        %2 = nn.conv2d(%1, w1', data_layout="NCHW16c", kernel_layout="OIHW16i16o", out_layout="NCHW16c");
        layout_transform(%2, src_layout="NCHW16c", dst_layout="NCHW")

Operators say what they can do through their `Op.layout` rule: convolutions offer choices with their costs (minimal
filtering among them, which becomes an operator of its own with transformed weights), elementwise operators, pooling,
concatenation and the like follow. `layout_plan` chooses for the whole graph, unless records of tuning know better. A
value is transformed only where a reader wants another layout than it is in, once per layout, and constants are
transformed at compile time. Outputs keep their plain layout.
"""

from __future__ import annotations

from tilewright.errors import TypeMismatchError
from tilewright.records.database import Database
from tilewright.relay.ir.backend import GraphBackend
from tilewright.relay.ir.expr import Call, Expr, Tuple, TupleGetItem
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import LayoutChoice
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import children, post_order, rebuild
from tilewright.relay.transform.layout.layout_plan import LayoutPlan, Planner, blocked, keeps_order, plain, plan_layouts
from tilewright.relay.transform.layout.recorded_layouts import recorded_plan
from tilewright.relay.transform.simplify.make import make, reshape
from tilewright.support.recursion import nested
from tilewright.topi.layout import transform_shape


def alter_layout(mod: IRModule, backend: GraphBackend, records: Database | None = None) -> IRModule:
    """Choose the layout of every value of every function for `backend`; see the module's docstring."""
    mod = infer_type(mod)
    altered = mod.map_functions(
        lambda func: func.with_body(_Rewriter(_plan(func.body, backend, records)).run(func.body))
    )
    return infer_type(altered)


def _plan(body: Expr, backend: GraphBackend, records: Database | None) -> LayoutPlan:
    """The plan that tuning has found for this very graph, else the one of least expected cost."""
    found = None if records is None else recorded_plan(Planner(body, backend), records)
    return plan_layouts(body, backend) if found is None else found


class _Rewriter:
    """The rewriting of one function. Values are known by their nodes in the old graph, where all are plain."""

    def __init__(self, plan: LayoutPlan) -> None:
        self.choices = plan.choices
        #: Layout an old node's value is in after rewriting; absent if plain.
        self.layout = plan.layouts
        #: (old node, layout or None for plain) -> the new node with its value in that layout.
        self.forms: dict[tuple[Expr, str | None], Expr] = {}

    def run(self, root: Expr) -> Expr:
        """The rewritten `root`, in the plain layout."""
        for node in post_order(root):
            self._visit(node)
        return self.form(root, None)

    def _visit(self, node: Expr) -> None:
        if isinstance(node, Tuple):
            return
        choice = self.choices.get(node) if isinstance(node, Call) else None
        if isinstance(node, Call) and choice is not None:
            fresh: Expr = self._altered(node, choice)
        elif isinstance(node, TupleGetItem) and node in self.layout:
            fresh = TupleGetItem(self.forms[node.tuple_value, self.layout[node]], node.index)
        else:
            fresh = rebuild(node, tuple([self.form(kid, None) for kid in children(node)]))
        self.forms[node, self.layout.get(node)] = fresh

    def _altered(self, call: Call, choice: LayoutChoice) -> Call:
        wanted = iter(choice.inputs)
        args: list[Expr] = []
        for arg in call.args:
            if isinstance(arg, Tuple):
                args.append(Tuple([self.form(value, blocked(next(wanted))) for value in arg.fields]))
            else:
                args.append(self.form(arg, blocked(next(wanted))))
        if choice.rewrite is not None:
            return choice.rewrite(call, args)
        return Call(call.op, args, choice.attrs, call.span)

    @nested
    def form(self, node: Expr, layout: str | None) -> Expr:
        """The new node with the value of the old `node` in `layout` (None: plain), transformed if need be, once."""
        found = self.forms.get((node, layout))
        if found is None:
            found = self._transformed(node, layout)
            self.forms[node, layout] = found
        return found

    def _transformed(self, node: Expr, layout: str | None) -> Expr:
        if isinstance(node, Tuple):
            return rebuild(node, tuple([self.form(field, layout) for field in node.fields]))
        current = self.layout.get(node)
        source = self.forms[node, current]
        type_ = type_of(node)
        if not isinstance(type_, TensorType):
            fields = [TupleGetItem(source, index) for index in range(len(tensor_types(type_)))]
            return Tuple([_transform(field, current, layout) for field in fields])
        return _transform(_at_rank(source, layout) if current is None else source, current, layout)


def _at_rank(value: Expr, layout: str | None) -> Expr:
    """A plain value with leading axes of extent 1 until it has as many as `layout` has letters for."""
    assert layout is not None
    type_ = type_of(value)
    assert isinstance(type_, TensorType)
    missing = len(plain(layout)) - type_.ndim
    return reshape(value, (1,) * missing + type_.shape) if missing > 0 else value


def _transform(value: Expr, source: str | None, target: str | None) -> Expr:
    """`value` from layout `source` to `target`, one of which may be None; a reshape where no element moves."""
    source, target = source or plain(target or ""), target or plain(source or "")
    type_ = type_of(value)
    if not isinstance(type_, TensorType):
        raise TypeMismatchError(f"a value of type {type_} has no layout")
    shape = transform_shape(type_.shape, source, target)
    if keeps_order(type_.shape, source, shape, target):
        return reshape(value, shape)
    return make("layout_transform", value, src_layout=source, dst_layout=target)
