"""Calls that move no bytes."""

import pytest

from tilewright import relay
from tilewright.relay.op.views import Join, absolute, assign_joins, cut_offsets, is_free, joins_contiguously

X = relay.var("x", shape=(1, 4, 6))


@pytest.mark.parametrize(
    "call,offsets",
    [
        (relay.strided_slice(X, [1], [3], axes=[1]), (24,)),
        (relay.strided_slice(X, [2, 1], [3, 4], axes=[1, 2]), (52,)),
        (relay.strided_slice(X, [1], [3], axes=[2]), None),
        (relay.strided_slice(X, [0], [4], [2], axes=[1]), None),
        (relay.strided_slice(X, [3], [-9], [-1], axes=[1]), None),
        (relay.split(X, [1, 3], axis=1), (0, 24, 72)),
        (relay.split(X, 2, axis=2), None),
        (relay.exp(X), None),
    ],
)
def test_cuts_have_these_offsets(call: relay.Call, offsets: tuple[int, ...] | None) -> None:
    assert cut_offsets(call) == offsets


@pytest.mark.parametrize("axis,contiguous", [(0, True), (1, True), (-2, True), (2, False)])
def test_joins_along_leading_axes_are_contiguous(axis: int, contiguous: bool) -> None:
    assert joins_contiguously(relay.concatenate([X, X], axis=axis)) is contiguous


def test_batches_do_not_join_by_channel() -> None:
    y = relay.var("y", shape=(2, 3))
    assert not joins_contiguously(relay.concatenate([y, y], axis=1))
    assert joins_contiguously(relay.concatenate([y, y], axis=0))


def test_the_last_join_places_the_parts_and_earlier_ones_find_them_in_order() -> None:
    early = Join("ab", ("a", "b"), (4, 8))
    late = Join("abc", ("a", "b", "c"), (4, 8, 12))
    placed = assign_joins([early, late], lambda key: False)
    assert is_free(early, placed) and is_free(late, placed)
    assert absolute("ab", placed) == ("abc", 0) and absolute("c", placed) == ("abc", 12)


def test_nested_joins_are_one_buffer() -> None:
    inner, outer = Join("ab", ("a", "b"), (4, 8)), Join("cab", ("c", "ab"), (16, 12))
    placed = assign_joins([inner, outer], lambda key: False)
    assert absolute("b", placed) == ("cab", 20)


@pytest.mark.parametrize("fixed", ["a", "ba"])
def test_what_is_fixed_or_in_another_order_is_not_free(fixed: str) -> None:
    first, second = Join("ab", ("a", "b"), (4, 8)), Join("ba", ("b", "a"), (8, 4))
    placed = assign_joins([first, second], lambda key: key == fixed)
    assert not is_free(first, placed) or not is_free(second, placed)
    assert not is_free(
        Join("aa", ("a", "a"), (4, 4)), assign_joins([Join("aa", ("a", "a"), (4, 4))], lambda key: False)
    )
