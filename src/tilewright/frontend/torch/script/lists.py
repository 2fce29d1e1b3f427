"""Operators of TorchScript on lists, dictionaries, texts and known numbers, which exist while it is converted only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _set_item(where: Any, key: Any, value: Any) -> Any:
    where[key] = value
    return where


def _append(items: list[Any], value: Any) -> list[Any]:
    items.append(value)
    return items


def _extend(items: list[Any], more: list[Any]) -> None:
    items.extend(more)


def _slice(items: Any, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return items[slice(start, end, step)]


LISTS: dict[str, Callable[..., Any]] = {
    "aten::__getitem__": lambda where, key: where[key],
    "aten::_set_item": _set_item,
    "aten::append": _append,
    "aten::extend": _extend,
    "aten::insert": lambda items, place, value: items.insert(place, value),
    "aten::pop": lambda items, place=-1: items.pop(place),
    "aten::len": len,
    "aten::list": list,
    "aten::dict": lambda items=(): dict(items),
    "aten::keys": lambda where: list(where),
    "aten::values": lambda where: list(where.values()),
    "aten::items": lambda where: list(where.items()),
    "aten::get": lambda where, key, default=None: where.get(key, default),
    "prim::min": min,
    "prim::max": max,
    "aten::slice": _slice,
    "aten::__contains__": lambda where, key: key in where,
    "prim::rangelist": lambda count: list(range(count)),
}
