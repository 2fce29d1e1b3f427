"""A choice that schedules are made by, as data: one value for each knob of a template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Value = int


@dataclass(frozen=True)
class Config(Mapping[str, Value]):
    """One value for each knob of a space, in the order of its knobs."""

    items_: tuple[tuple[str, Value], ...]

    def __getitem__(self, name: str) -> Value:
        for key, value in self.items_:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self.items_])

    def __len__(self) -> int:
        return len(self.items_)

    def __hash__(self) -> int:
        return hash(self.items_)

    def __str__(self) -> str:
        return " ".join(f"{name}={int(value)}" for name, value in self.items_)

    def to_json(self) -> dict[str, Value]:
        """Plain data, by knob."""
        return dict(self.items_)
