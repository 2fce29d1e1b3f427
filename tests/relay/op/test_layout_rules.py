"""Layout rules, one by one; `transform/test_alter_layout.py` has them at work."""

import pytest

from tilewright import relay
from tilewright.relay.ir.type import TensorType
from tilewright.relay.op import layout_rules as rules

IMAGE = TensorType((1, 32, 6, 6))


def test_the_block_of_channels_is_read_from_the_layout() -> None:
    assert [rules.channel_block(layout) for layout in ("NCHW16c", "NCHW1c", "NCHW", None)] == [16, 1, 0, 0]


def test_follow_input_needs_a_blocked_input() -> None:
    assert rules.follow_input(relay.Attrs(), [None], [IMAGE], None) is None
    choice = rules.follow_input(relay.Attrs(), ["NCHW8c"], [IMAGE], None)
    assert choice is not None and choice.inputs == ("NCHW8c",) and choice.output == "NCHW8c"


@pytest.mark.parametrize(
    "shape,wanted",
    [((32, 1, 1), "NCHW16c"), ((6, 6), "NCHW1c"), ((1,), None), ((), None), ((1, 32, 1, 6), "NCHW16c")],
)
def test_operands_of_a_broadcast_follow_its_layout(shape: tuple[int, ...], wanted: str | None) -> None:
    choice = rules.follow_broadcast(relay.Attrs(), [None, "NCHW16c"], [TensorType(shape), IMAGE], None)
    assert choice is not None and choice.inputs == (wanted, "NCHW16c")


def test_the_larger_operand_leads() -> None:
    small = TensorType((1, 32, 1, 1))
    choice = rules.follow_broadcast(relay.Attrs(), ["NCHW8c", "NCHW16c"], [small, IMAGE], None)
    assert choice is not None and choice.inputs == ("NCHW16c", "NCHW16c")


@pytest.mark.parametrize("channels,layout", [((32, 16), "NCHW16c"), ((32, 24), "NCHW8c"), ((32, 4), "NCHW4c")])
def test_concatenated_channels_share_a_block(channels: tuple[int, ...], layout: str) -> None:
    types = [TensorType((1, c, 6, 6)) for c in channels]
    choice = rules.follow_concatenate(relay.Attrs(axis=1), ["NCHW16c", None], types, None)
    assert choice is not None and choice.inputs == (layout, layout)


def test_concatenation_of_odd_channels_is_plain() -> None:
    types = [IMAGE, TensorType((1, 3, 6, 6))]
    assert rules.follow_concatenate(relay.Attrs(axis=1), ["NCHW16c", None], types, None) is None


@pytest.mark.parametrize("parts,blocked", [(2, 2), ((16,), (1,)), (4, None), ((8,), None)])
def test_split_at_multiples_of_the_block(parts: object, blocked: object) -> None:
    attrs = relay.Attrs(axis=1, indices_or_sections=parts)
    choice = rules.follow_split(attrs, ["NCHW16c"], [IMAGE], None)
    assert (choice and choice.attrs.indices_or_sections) == blocked


def test_pad_and_reduce_and_slice_keep_off_the_channels() -> None:
    spatial, channels = ((0, 0), (0, 0), (1, 1), (0, 2)), ((0, 0), (1, 0), (0, 0), (0, 0))
    padded = rules.follow_pad(relay.Attrs(pad_width=spatial), ["NCHW16c"], [IMAGE], None)
    assert padded is not None and padded.attrs.pad_width == (*spatial, (0, 0))
    assert rules.follow_pad(relay.Attrs(pad_width=channels), ["NCHW16c"], [IMAGE], None) is None
    reduce = {"keepdims": True, "exclude": False}
    kept = rules.follow_reduce(relay.Attrs(axis=(-1, 2), **reduce), ["NCHW16c"], [IMAGE], None)
    assert kept is not None and kept.attrs.axis == (2, 3)
    assert rules.follow_reduce(relay.Attrs(axis=(1,), **reduce), ["NCHW16c"], [IMAGE], None) is None
    cut = rules.follow_strided_slice(relay.Attrs(axes=(-1,)), ["NCHW16c"], [IMAGE], None)
    assert cut is not None and cut.attrs.axes == (3,)
    assert rules.follow_strided_slice(relay.Attrs(axes=(1,)), ["NCHW16c"], [IMAGE], None) is None
