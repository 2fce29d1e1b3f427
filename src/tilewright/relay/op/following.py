"""Layout propagation through operators whose data come in another layout, the field `Op.follows`: NHWC or NCHW16c
instead of NCHW.

A rule takes a call, for each tensor that it reads the layout that it had and the one it has now (None: nothing is known
of its axes), and their types as they were. It says in which the call then wants each of them and has its results,
and its new attributes; None: it does not follow. Operators without a rule that compute element by element follow by
`elementwise`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewright.errors import TypeMismatchError
from tilewright.relay.ir.expr import Attrs, Call
from tilewright.relay.ir.registry import Followed, Moved
from tilewright.relay.ir.type import TensorType, tensor_types
from tilewright.relay.ir.type_of import type_of
from tilewright.topi.layout import Layout, parse_layout, transform_shape

Moves = Sequence[Moved | None]
Types = Sequence[TensorType]

#: The letters of the plain layout of data by their number of spatial axes; a kernel has O and I for N and C.
LETTERS = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def order_of(plain: str, layout: str) -> tuple[int, ...]:
    """The axes of `plain` ("NCHW") in the order of `layout` ("NHWC"): (0, 2, 3, 1)."""
    return tuple([plain.index(letter) for letter in layout])


def position_of(letter: str, layout: str) -> int:
    """The dimension of `layout` that counts the axis `letter`, the outermost part of it where it is blocked."""
    return parse_layout(layout).axes.index((letter, 0))


def elementwise(call: Call, moves: Moves, types: Types) -> Followed | None:
    """Elementwise and broadcasting operators: an operand of the result's rank leads, others are laid out like it."""
    made = type_of(call)
    if not isinstance(made, TensorType) or "axis" in call.attrs or len(types) != len(call.args):
        return None
    lead = _leader(moves, types, made)
    wanted = [_beside(lead, type_) if lead is not None else None for type_ in types]
    if any(move is None and type_.size != 1 for move, type_ in zip(wanted, types)):
        return None
    return Followed(tuple(wanted), (lead,), call.attrs)


def quantized_elementwise(call: Call, moves: Moves, types: Types) -> Followed | None:
    """Two operands with scales and zero points, single numbers, whose axes say nothing then."""
    made = type_of(call)
    lead = _leader(moves[:2], types[:2], made) if isinstance(made, TensorType) else None
    wanted = [_beside(lead, type_) if lead is not None else None for type_ in types]
    if any(move is None and type_.size != 1 for move, type_ in zip(wanted, types)):
        return None
    if any(move is not None for move in wanted[2:]):
        return None
    return Followed(tuple(wanted), (lead,), call.attrs)


def _leader(moves: Moves, types: Types, made: TensorType) -> Moved | None:
    """The layout of the first operand that has moved, or is known at all, and covers the whole result."""
    known = [
        move
        for move, type_ in zip(moves, types)
        if move is not None
        and type_.ndim == made.ndim == parse_layout(move.was).ndim
        and (type_.shape == made.shape or not _blocked(move.now))
    ]
    return next((move for move in known if move.was != move.now), known[0] if known else None)


def _beside(lead: Moved, type_: TensorType) -> Moved | None:
    """The layout of an operand beside one in `lead`; None for a single number, or where there is none."""
    was, now = parse_layout(lead.was), parse_layout(lead.now)
    if type_.size == 1 or type_.ndim > was.ndim:
        return None
    if was.is_blocked:
        return lead if type_.ndim == was.ndim else None
    shape = (1,) * (was.ndim - type_.ndim) + type_.shape
    whole = {letter for (letter, _), extent in zip(was.axes, shape) if extent == 1}
    move = Moved(
        lead.was, _spelled([(letter, 1 if block and letter in whole else block) for letter, block in now.axes])
    )
    return move if _fits(move, shape) else None


def along_axis(call: Call, moves: Moves, types: Types) -> Followed | None:
    """Operators whose `axis` counts the axes of the data, beside vectors of one number for each position on it."""
    lead = moves[0]
    if lead is None or _axis_is_split(lead, call.attrs.axis):
        return None
    made = len(tensor_types(type_of(call)))
    inputs = [lead, *[None] * (len(types) - 1)]
    return Followed(tuple(inputs), (lead, *[None] * (made - 1)), _with_axis(call, lead))


def joined(call: Call, moves: Moves, types: Types) -> Followed | None:
    """Concatenations: all take the layout of the first that has moved, where they can; single numbers stay."""
    ndim = types[0].ndim
    known = [move for move in moves if move is not None and parse_layout(move.was).ndim == ndim]
    lead = next((move for move in known if move.was != move.now), known[0] if known else None)
    if lead is None or _blocked(lead.was):
        return None
    data = [type_.ndim == ndim for type_ in types]
    if not all(_fits(lead, type_.shape) for type_, is_data in zip(types, data) if is_data):
        return None
    inputs = tuple([lead if is_data else None for is_data in data])
    return Followed(inputs, (lead,), _with_axis(call, lead))


def parted(call: Call, moves: Moves, types: Types) -> Followed | None:
    """`split`, but for the blocks of the axis that it cuts."""
    lead = moves[0]
    if lead is None or _axis_is_split(lead, call.attrs.axis):
        return None
    return Followed((lead,), (lead,) * len(tensor_types(type_of(call))), _with_axis(call, lead))


def reduction(call: Call, moves: Moves, types: Types) -> Followed | None:
    """Reductions: over an axis means over its blocks too; what is left keeps its layout."""
    lead, axis = moves[0], call.attrs.axis
    if lead is None or _blocked(lead.was):
        return None
    was, now = parse_layout(lead.was), parse_layout(lead.now)
    given = set(was.primal) if axis is None else _letters_at(was, axis)
    gone = set(was.primal) - given if call.attrs.exclude and axis is not None else given
    positions = tuple([position for position, (letter, _) in enumerate(now.axes) if letter in given])
    attrs = call.attrs if axis is None else call.attrs.replace(axis=_like(axis, positions))
    if call.attrs.keepdims:
        ones = [(letter, 1 if block and letter in gone else block) for letter, block in now.axes]
        return Followed((lead,), (Moved(lead.was, _spelled(ones)),), attrs)
    return Followed((lead,), (_without(lead, gone),), attrs)


def positions_of_extremes(call: Call, moves: Moves, types: Types) -> Followed | None:
    """`argmax` and `argmin`, which count the elements of the axes that they reduce: these must keep their order."""
    choice, lead = reduction(call, moves, types), moves[0]
    if choice is None or lead is None:
        return None
    given = _letters_at(
        parse_layout(lead.was), call.attrs.axis if call.attrs.axis is not None else range(len(lead.was))
    )
    gone = set(lead.was) - given if call.attrs.exclude and call.attrs.axis is not None else given
    before, after = ([axis for axis in parse_layout(layout).axes if axis[0] in gone] for layout in lead)
    return choice if before == after else None


def deviation(call: Call, moves: Moves, types: Types) -> Followed | None:
    """`variance`, whose second operand is the mean with its dimensions kept."""
    choice, lead = reduction(call, moves, types), moves[0]
    beside = _beside(lead, types[1]) if lead is not None else None
    if choice is None or (beside is None and types[1].size != 1):
        return None
    return Followed((lead, beside), choice.outputs, choice.attrs)


def squeezed(call: Call, moves: Moves, types: Types) -> Followed | None:
    """`squeeze`: what is left keeps its layout."""
    lead, axis = moves[0], call.attrs.axis
    if lead is None or _blocked(lead.was):
        return None
    was = parse_layout(lead.was)
    ones = [position for position, extent in enumerate(types[0].shape) if extent == 1]
    gone = _letters_at(was, ones if axis is None else axis)
    if any(letter in gone and block for letter, block in parse_layout(lead.now).axes):
        return None
    positions = tuple(sorted(position_of(letter, lead.now) for letter in gone))
    attrs = call.attrs.replace(axis=positions if axis is None else _like(axis, positions))
    return Followed((lead,), (_without(lead, gone),), attrs)


def transposed(call: Call, moves: Moves, types: Types) -> Followed | None:
    """`transpose` orders the axes as it did before, whatever order they come in."""
    lead = moves[0]
    if lead is None or _blocked(lead.was) or _blocked(lead.now):
        return None
    ndim = len(lead.was)
    axes = call.attrs.axes or tuple(reversed(range(ndim)))
    given = "".join(lead.was[axis % ndim] for axis in axes)
    return Followed((lead,), (Moved(given, given),), call.attrs.replace(axes=order_of(lead.now, given)))


def padding(call: Call, moves: Moves, types: Types) -> Followed | None:
    """`nn.pad`, whose widths go with the axes; blocked axes are not padded."""
    lead, width = moves[0], call.attrs.pad_width
    if lead is None or _blocked(lead.was):
        return None
    now, by_letter = parse_layout(lead.now), dict(zip(lead.was, width))
    if any(block and any(by_letter[letter]) for letter, block in now.axes):
        return None
    widths = tuple([by_letter[letter] if not block else (0, 0) for letter, block in now.axes])
    return Followed((lead, *[None] * (len(types) - 1)), (lead,), call.attrs.replace(pad_width=widths))


def with_layout(call: Call, moves: Moves, types: Types) -> Followed | None:
    """Operators on images whose attribute `layout` names the order: pooling, resizing. Channels only may be blocked."""
    lead = moves[0]
    if lead is None or lead.was != call.attrs.layout:
        return None
    split = {letter for letter, block in parse_layout(lead.now).axes if block}
    if split and (split != {"C"} or call.op.layout is None):  # type: ignore[union-attr]
        return None
    return Followed((lead, *[None] * (len(types) - 1)), (lead,), call.attrs.replace(layout=lead.now))


def sliced(call: Call, moves: Moves, types: Types) -> Followed | None:
    """`strided_slice`: bounds go with their axes; those of a blocked axis count blocks."""
    lead, attrs = moves[0], call.attrs
    if lead is None or _blocked(lead.was):
        return None
    ndim, count = types[0].ndim, len(attrs.begin)
    axes = [axis % ndim for axis in attrs.axes] if attrs.axes is not None else list(range(ndim))
    begin, end, strides = attrs.begin, attrs.end, attrs.strides or (1,) * count
    if attrs.axes is None:
        sizes = types[0].shape
        if not all(isinstance(size, int) for size in sizes):
            return None
        begin = (*begin, *[0] * (ndim - len(begin)))
        end = (*end, *sizes[len(end) :])
        strides = (*strides, *[1] * (ndim - len(strides)))
    bounds = list(zip(axes, begin, end, (*strides, *[1] * (len(axes) - len(strides)))))
    moved = [_bounds_in(lead, axis, first, last, step) for axis, first, last, step in bounds]
    if any(one is None for one in moved):
        return None
    if attrs.axes is None:
        blocks = [(position, 0, block, 1) for position, (_, block) in enumerate(parse_layout(lead.now).axes) if block]
        moved = sorted([*moved, *blocks])  # type: ignore[type-var]
    positions, firsts, lasts, steps = zip(*moved)
    named = positions if attrs.axes is not None else None
    return Followed((lead,), (lead,), attrs.replace(begin=firsts, end=lasts, strides=steps, axes=named))


def _bounds_in(lead: Moved, axis: int, first: int, last: int, step: int) -> tuple[int, int, int, int] | None:
    """Position, begin, end and stride of a slice of `axis` in the new layout; None if it does not keep blocks whole."""
    block = parse_layout(lead.now).block_of(lead.was[axis])
    if block > 1 and (step != 1 or first % block or last % block or first < 0 or last < 0):
        return None
    return position_of(lead.was[axis], lead.now), first // block, last // block, step


def cut_like(call: Call, moves: Moves, types: Types) -> Followed | None:
    """`slice_like` of two values in one layout; which axes it cuts must be named."""
    lead, axes = moves[0], call.attrs.axes
    if lead is None or moves[1] is None or moves[1].was != lead.was or not axes or _blocked(lead.now):
        return None
    positions = tuple([position_of(lead.was[axis % len(lead.was)], lead.now) for axis in axes])
    return Followed((lead, lead), (lead,), call.attrs.replace(axes=positions))


def _with_axis(call: Call, lead: Moved) -> Attrs:
    return call.attrs.replace(axis=position_of(lead.was[call.attrs.axis % len(lead.was)], lead.now))


def _axis_is_split(lead: Moved, axis: int) -> bool:
    """True where `axis` of the layout that was has no dimension of its own in the new one."""
    return _blocked(lead.was) or parse_layout(lead.now).block_of(lead.was[axis % len(lead.was)]) > 1


def _letters_at(layout: Layout, axis: int | Iterable[int]) -> set[str]:
    return {layout.axes[at][0] for at in ((axis,) if isinstance(axis, int) else axis)}


def _like(axis: int | Sequence[int], positions: tuple[int, ...]) -> int | tuple[int, ...]:
    """`positions` as one number where `axis` was one and there is but one position."""
    return positions[0] if isinstance(axis, int) and len(positions) == 1 else positions


def _without(lead: Moved, gone: set[str]) -> Moved | None:
    """`lead` without the axes that are gone; None where nothing is left."""
    was, now = (
        _spelled([(letter, block) for letter, block in parse_layout(layout).axes if letter not in gone])
        for layout in lead
    )
    return Moved(was, now) if was else None


def _spelled(axes: Iterable[tuple[str, int]]) -> str:
    return "".join(f"{block}{letter.lower()}" if block else letter for letter, block in axes)


def _blocked(layout: str) -> bool:
    return parse_layout(layout).is_blocked


def _fits(move: Moved, shape: Sequence[object]) -> bool:
    """True if a tensor of `shape` can be laid out so: its axes divide into blocks."""
    try:
        transform_shape(shape, *move)  # type: ignore[arg-type]
    except TypeMismatchError:
        return False
    return True
