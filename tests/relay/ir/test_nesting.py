"""The innermost position around two, by depth and parent."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.relay.ir.nesting import innermost_around


@dataclass(eq=False)
class Room:
    parent: Room | None
    depth: int


def within(around: Room | None) -> Room:
    return Room(around, 0 if around is None else around.depth + 1)


def test_it_is_where_the_ways_out_meet() -> None:
    house = within(None)
    hall, kitchen = within(house), within(house)
    closet = within(within(hall))
    assert innermost_around(closet, kitchen) is house
    assert innermost_around(closet, hall) is hall
    assert innermost_around(hall, closet) is hall
    assert innermost_around(closet, closet) is closet
