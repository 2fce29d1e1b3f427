"""Capabilities of a device, as reported to users and to its tracker, and the test of a requirement against them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from tilewright.errors import EnvironmentError_
from tilewright.rpc.board.loads import ARTIFACT
from tilewright.runtime.processor import host_architecture, host_features
from tilewright.runtime.threads import available_processors
from tilewright.support.memory_limit import physical_bytes


def capability(name: str, key: str = "", stated: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Name, key (what kind of device its owner calls it), architecture, features, processors, memory, what it `loads`.

    Memory is in bytes.

    `stated` has what cannot be seen from here, as where the worker is another machine's.
    """
    try:
        architecture, features = host_architecture(), sorted(host_features())
    except EnvironmentError_:
        architecture, features = os.uname().machine, []
    seen = {
        "name": name,
        "key": key or architecture,
        "architecture": architecture,
        "features": features,
        "processors": available_processors(),
        "memory": physical_bytes(),
        "system": sys.platform,
        "loads": ARTIFACT,
    }
    return {**seen, **(stated or {})}


def satisfies(offered: Mapping[str, Any], need: Mapping[str, Any]) -> bool:
    """True if a device with these capabilities meets the requirement.

    `need` may have `name`, `key` and `architecture` (equal), `features` (all there), `memory` and
    `processors` (at least).
    """
    equal = all(offered.get(field) == need[field] for field in ("name", "key", "architecture") if need.get(field))
    enough = all(int(offered.get(field, 0)) >= need[field] for field in ("memory", "processors") if need.get(field))
    return equal and enough and set(need.get("features", ())) <= set(offered.get("features", ()))


def check_need(need: Mapping[str, Any]) -> str:
    """The fault in a description of a requirement; an empty text if there is none."""
    for field, value in need.items():
        if field in ("name", "key", "architecture"):
            fits = isinstance(value, str)
        elif field in ("memory", "processors"):
            fits = type(value) is int and value >= 0
        elif field == "features":
            fits = isinstance(value, list) and all(isinstance(feature, str) for feature in value)
        else:
            return (
                f"a device is not chosen by {field!r}; it is by name, key, architecture, features, memory, processors"
            )
        if not fits:
            return f"{field!r} of a device cannot be {value!r:.80}"
    return ""
