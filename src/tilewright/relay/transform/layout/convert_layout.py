"""Convolutions and what lies between them are computed in layouts that the user requests.

Before: nn.relu(nn.conv2d(%x, %w))                                                            (NCHW, OIHW)
After:  %0 = transpose(%x, axes=[0, 2, 3, 1]); %1 = transpose(%w, axes=[2, 3, 1, 0]);
        %2 = nn.conv2d(%0, %1, data_layout="NHWC", kernel_layout="HWIO"); transpose(nn.relu(%2), axes=[0, 3, 1, 2])

`desired_layouts` has, by operator, the layout of its data and, for convolutions, of its kernel ("default": the one
that goes with the data's). Elementwise operators, concatenations, reductions, slices, pads and others follow their
inputs (`relay/op/following.py`); a transposition stands only where a value is needed the other way round. Weights are
transposed when compiling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar, Token

from tilewright.errors import UnsupportedError
from tilewright.relay.ir.expr import Attrs, Call, Constant, Expr
from tilewright.relay.ir.infer_type import infer_type
from tilewright.relay.ir.module import IRModule
from tilewright.relay.ir.registry import Op, get, names
from tilewright.relay.ir.type import Type
from tilewright.relay.ir.type_of import tensor_type_of, type_of
from tilewright.relay.ir.visitor import calls
from tilewright.relay.op.following import LETTERS, order_of
from tilewright.relay.op.transform import transpose
from tilewright.relay.transform.layout.layout_rewriter import LayoutRewriter, Mover
from tilewright.relay.transform.simplify.fold_constant import fold_call
from tilewright.relay.transform.simplify.make import reshape

#: The kernel layout that goes with each data layout.
DEFAULT_KERNELS = {
    "NCW": "OIW", "NWC": "WIO", "NCHW": "OIHW", "NHWC": "HWIO", "HWNC": "HWOI", "NCDHW": "OIDHW", "NDHWC": "DHWIO",
}  # fmt: skip

#: (attributes, operands as they are now, the types of operands and result as they were, the requested layouts) -> the
#: call instead of this one, or None to keep it.
ConvertRule = Callable[[Attrs, Sequence[Expr], Sequence[Type], Sequence[str]], "Expr | None"]


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


def transposed_to(value: Expr, missing: int, now: str, wanted: str) -> Expr:
    """`value` with `missing` axes of extent 1 in front, from one order of axes to another; a constant is folded."""
    type_ = tensor_type_of(value)
    if missing:
        value = reshape(value, (1,) * missing + type_.shape)
    call = transpose(value, order_of(now, wanted))
    folded = fold_call(call, limit=type_.nbytes) if isinstance(value, Constant) else None
    return folded or call


def convert_layout(
    mod: IRModule,
    desired_layouts: Mapping[str, str | Sequence[str]],
    mover: Mover = transposed_to,
    rules: Mapping[str, ConvertRule] | None = None,
) -> IRModule:
    """Convert the operators that `desired_layouts` names; see the module's docstring. `mover` puts values in layouts.

    Operators with one of `rules` become what it says. Raises `UnsupportedError` for another operator that has no
    layout, or for letters that are not those of its own.
    """
    own = rules or {}
    wanted = {name: _asked(name, layouts, name in own) for name, layouts in desired_layouts.items()}
    mod = infer_type(mod)

    def convert(root: Expr) -> Expr:
        skipped = _skipped(root, wanted)

        def rule(call: Call, args: Sequence[Expr]) -> Expr | None:
            assert isinstance(call.op, Op)
            if call.op.name not in wanted or call in skipped:
                return None
            if call.op.name in own:
                types = [*map(type_of, call.args), type_of(call)]
                return own[call.op.name](call.attrs, args, types, wanted[call.op.name])
            return None if not _has_layout(call.op.name) else _converted(call, args, wanted[call.op.name])

        return LayoutRewriter(rule, mover).run(root)

    return infer_type(mod.map_functions(lambda func: func.with_body(convert(func.body))))


def _asked(name: str, layouts: str | Sequence[str], has_rule: bool) -> tuple[str, ...]:
    """The layouts asked of the operator `name`. Raises `UnsupportedError` for others than it has, rules apart."""
    asked = (layouts,) if isinstance(layouts, str) else tuple(layouts)
    if has_rule or (get(name).follows is not None and not _has_layout(name)):
        return asked  # where the operator only follows its data, there is nothing to ask for
    if not _has_layout(name):
        known = ", ".join(other for other in names() if _has_layout(other))
        raise UnsupportedError(f"convert_layout: {name} has no layout to choose; those that have: {known}")
    letters = [LETTERS[get(name).spatial_axes]] if get(name).spatial_axes else list(LETTERS.values())
    if not any(_same_axes(asked[0], plain) for plain in letters):
        orders = " or ".join(", ".join(plain) for plain in letters)
        raise UnsupportedError(f"convert_layout: {name} in {asked[0]!r}; it takes an order of {orders}")
    return asked


def _has_layout(name: str) -> bool:
    """True for operators on images whose axes a program may order."""
    schema = get(name).attributes or {}
    return get(name).spatial_axes > 0 or {"data_layout", "kernel_layout"} <= schema.keys()


def _skipped(root: Expr, wanted: Mapping[str, tuple[str, ...]]) -> set[Expr]:
    """The convolutions that the `LayoutConfig` in force leaves alone."""
    named = [node for node in calls(root) if isinstance(node.op, Op) and node.op.name in wanted]
    layers = [call for call in named if "kernel_layout" in call.attrs]
    return {layers[i] for i in LayoutConfig.current().skip_layers if -len(layers) <= i < len(layers)}


def _converted(call: Call, args: Sequence[Expr], layouts: tuple[str, ...]) -> Call | None:
    """`call` in the requested layouts; None for one whose axes are others, such as blocks."""
    attrs, data = call.attrs, layouts[0]
    if "kernel_layout" not in attrs:
        return Call(call.op, args, attrs.replace(layout=data), call.span) if _same_axes(attrs.layout, data) else None
    if attrs.get("out_layout", "") not in ("", attrs.data_layout):
        return None
    kernel = layouts[1] if len(layouts) > 1 and layouts[1] != "default" else _default_kernel(call, data)
    letters = "OI" + data.translate({ord("N"): None, ord("C"): None})
    if kernel is None or sorted(kernel) != sorted(letters):
        orders, name = ", ".join(letters), call.op.name  # type: ignore[union-attr]
        raise UnsupportedError(f"convert_layout: {name} in {data} needs a kernel layout, an order of {orders}")
    if not _same_axes(attrs.data_layout, data) or not _same_axes(attrs.kernel_layout, kernel):
        return None
    changes = {"data_layout": data, "kernel_layout": kernel}
    if "out_layout" in attrs:
        changes["out_layout"] = ""
    return Call(call.op, args, attrs.replace(**changes), call.span)


def _default_kernel(call: Call, data: str) -> str | None:
    """The kernel layout that goes with `data`; of a transposed convolution with inputs and outputs exchanged."""
    schema, kernel = call.op.attributes, DEFAULT_KERNELS.get(data)  # type: ignore[union-attr]
    transposed = schema is not None and schema["kernel_layout"].default.startswith("IO")
    return kernel.translate(str.maketrans("OI", "IO")) if kernel is not None and transposed else kernel


def _same_axes(layout: str, other: str) -> bool:
    return sorted(layout) == sorted(other)
