"""Convolutions and what lies between them are computed in layouts that the user asks for.

Before: nn.relu(nn.conv2d(%x, %w))                                                            (NCHW, OIHW)
After:  %0 = transpose(%x, axes=[0, 2, 3, 1]); %1 = transpose(%w, axes=[2, 3, 1, 0]);
        %2 = nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="HWIO"); transpose(nn.relu(%2), axes=[0, 3, 1, 2])

`desired_layouts` has, by operator, the layout of its data and, for convolutions, of its kernel ("default": the one
that goes with the data's). Elementwise operators, concatenations, reductions and pads follow their inputs; a
transposition stands only where a value is needed the other way round. Weights are transposed when compiling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar, Token

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Call, Constant, Expr, Tuple
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, OpPattern, Order, OrderChoice, get, names
from tilewright.relay.ir.type import TensorType
from tilewright.relay.ir.type_of import type_of
from tilewright.relay.ir.visitor import calls, children, post_order, rebuild
from tilewright.relay.op.orders import LETTERS, in_layout, order_of
from tilewright.relay.op.transform import transpose
from tilewright.relay.transform.simplify.fold_constant import fold_call
from tilewright.relay.transform.simplify.make import reshape

#: The kernel layout that goes with each data layout.
DEFAULT_KERNELS = {
    "NCW": "OIW", "NWC": "WIO", "NCHW": "OIHW", "NHWC": "HWIO", "NCDHW": "OIDHW", "NDHWC": "DHWIO",
}  # fmt: skip


class LayoutConfig:
    """Within its `with` block `convert_layout` leaves some convolutions as they are: those numbered `skip_layers`.

    They are counted from 0 in order of evaluation, per function; negative numbers count from the last.
    """

    def __init__(self, skip_layers: Sequence[int] = ()) -> None:
        self.skip_layers = tuple(skip_layers)
        self._tokens: list[Token[LayoutConfig | None]] = []

    @staticmethod
    def current() -> LayoutConfig:
        """The innermost one that is open, or one that skips nothing."""
        return _CONFIG.get() or LayoutConfig()

    def __enter__(self) -> LayoutConfig:
        self._tokens.append(_CONFIG.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _CONFIG.reset(self._tokens.pop())


_CONFIG: ContextVar[LayoutConfig | None] = ContextVar("tilewright_layout_config", default=None)


def convert_layout(mod: IRModule, desired_layouts: Mapping[str, str | Sequence[str]]) -> IRModule:
    """Convert the operators that `desired_layouts` names; see the module's docstring.

    Raises `UnsupportedError` for an operator that has no layout, or for letters that are not those of its own.
    """
    wanted: dict[str, tuple[str, ...]] = {}
    for name, layouts in desired_layouts.items():
        if not get(name).spatial_axes:
            known = ", ".join(other for other in names() if get(other).spatial_axes)
            raise UnsupportedError(f"convert_layout: {name} has no layout to choose; those that have: {known}")
        wanted[name] = (layouts,) if isinstance(layouts, str) else tuple(layouts)
        letters = LETTERS[get(name).spatial_axes]
        if sorted(wanted[name][0]) != sorted(letters):
            orders = ", ".join(letters)
            raise UnsupportedError(f"convert_layout: {name} in {wanted[name][0]!r}; it takes an order of {orders}")
    mod = infer_type(mod)
    return infer_type(mod.map_functions(lambda func: func.with_body(_Rewriter(wanted).run(func.body))))


class _Rewriter:
    """The rewriting of one function. Values are known by their old nodes, which are all plain."""

    def __init__(self, wanted: Mapping[str, tuple[str, ...]]) -> None:
        self.wanted = wanted
        self.order: dict[Expr, Order] = {}
        self.forms: dict[tuple[Expr, Order | None], Expr] = {}
        self.skipped: set[Expr] = set()

    def run(self, root: Expr) -> Expr:
        """The rewritten `root`, plain."""
        self.skipped = _skipped(root, self.wanted)
        for node in post_order(root):
            choice = self._choose(node) if isinstance(node, Call) and isinstance(node.op, Op) else None
            if choice is None:
                self.forms[node, None] = rebuild(node, tuple([self.form(kid, None) for kid in children(node)]))
                continue
            assert isinstance(node, Call)
            args = [self._argument(arg, order) for arg, order in zip(node.args, choice.inputs, strict=True)]
            self.forms[node, choice.output] = Call(node.op, args, choice.attrs, node.span)
            if choice.output is not None:
                self.order[node] = choice.output
        return self.form(root, None)

    def _argument(self, arg: Expr, order: Order | None) -> Expr:
        if isinstance(arg, Tuple):
            return Tuple([self.form(field, order) for field in arg.fields])
        return self.form(arg, order)

    def form(self, node: Expr, order: Order | None) -> Expr:
        """The value of the old `node` in `order`."""
        key = (node, order)
        if key not in self.forms:
            current = self.order.get(node)
            plain = (
                self.forms[node, None] if current is None else transpose(self.forms[node, current], _inverse(current))
            )
            if current is not None:
                self.forms[node, None] = plain
            if order is not None:
                self.forms[key] = _permuted(plain, order)
        return self.forms[key]

    def _choose(self, call: Call) -> OrderChoice | None:
        assert isinstance(call.op, Op)
        name = call.op.name
        if call in self.skipped:
            return None
        if name in self.wanted and call.attrs.get("out_layout", "") in ("", call.attrs.get("data_layout")):
            layouts = self.wanted[name]
            return _convolution(call, layouts) if _is_convolution(call) else in_layout(call, layouts[0])
        values = [value for arg in call.args for value in (arg.fields if isinstance(arg, Tuple) else (arg,))]
        orders = [self.order[value] for value in values if value in self.order]
        types = [type_of(value) for value in (*values, call)]
        if not orders or not all(isinstance(t, TensorType) for t in types):
            return None
        follow = call.op.reorder or (_broadcast if call.op.pattern <= OpPattern.BROADCAST else None)
        return follow(call, orders[0], types) if follow is not None else None  # type: ignore[arg-type]


def _skipped(root: Expr, wanted: Mapping[str, tuple[str, ...]]) -> set[Expr]:
    """The convolutions that the `LayoutConfig` in force leaves alone."""
    named = [node for node in calls(root) if isinstance(node.op, Op) and node.op.name in wanted]
    layers = [call for call in named if _is_convolution(call)]
    return {layers[i] for i in LayoutConfig.current().skip_layers if -len(layers) <= i < len(layers)}


def _is_convolution(call: Call) -> bool:
    return "kernel_layout" in call.attrs


def _inverse(order: Order) -> Order:
    return tuple([order.index(axis) for axis in range(len(order))])


def _permuted(value: Expr, order: Order) -> Expr:
    """`value` with its axes in `order`; one of fewer dimensions gets leading axes first, a single number none."""
    type_ = type_of(value)
    assert isinstance(type_, TensorType)
    if type_.size == 1 and type_.ndim < len(order):
        return value
    if type_.ndim < len(order):
        value = reshape(value, (1,) * (len(order) - type_.ndim) + type_.shape)
    call = transpose(value, order)
    folded = fold_call(call, limit=type_.nbytes) if isinstance(value, Constant) else None
    return folded or call


def _convolution(call: Call, layouts: tuple[str, ...]) -> OrderChoice | None:
    data = layouts[0]
    kernel = layouts[1] if len(layouts) > 1 and layouts[1] != "default" else DEFAULT_KERNELS.get(data)
    letters = "OI" + data.translate({ord("N"): None, ord("C"): None})
    if kernel is None or sorted(kernel) != sorted(letters):
        orders, name = ", ".join(letters), call.op.name  # type: ignore[union-attr]
        raise UnsupportedError(f"convert_layout: {name} in {data} needs a kernel layout, an order of {orders}")
    if (sorted(call.attrs.data_layout), sorted(call.attrs.kernel_layout)) != (sorted(data), sorted(kernel)):
        return None  # blocked already
    order, kernel_order = order_of(call.attrs.data_layout, data), order_of(call.attrs.kernel_layout, kernel)
    attrs = call.attrs.replace(data_layout=data, kernel_layout=kernel, out_layout="")
    return OrderChoice((order, kernel_order), order, attrs)


def _broadcast(call: Call, order: Order, types: Sequence[TensorType]) -> OrderChoice | None:
    """Elementwise and broadcasting operators; those with an axis of their own do not follow."""
    if len(order) != types[-1].ndim or "axis" in call.attrs or any(isinstance(arg, Tuple) for arg in call.args):
        return None
    return OrderChoice((order,) * len(call.args), order, call.attrs)
