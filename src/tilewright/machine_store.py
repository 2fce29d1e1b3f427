"""Measured figures of this machine in the disk cache: `doctor --calibrate` writes them, `Target` reads them.

    key = store(machine, identity)        # a short digest of the figures
    stored_key(identity)                  # the digest of what was measured last of this machine; "" if nothing was
    stored(key)                           # the figures

`identity` says which machine the figures are of: its processor, features, caches and usable cores. Where any of these
changes (the virtual machine moved, a container got fewer cores), what was measured counts no more. Figures stay
readable under their digest after a new measurement, so that targets made before it keep their meaning.

An entry that does not read back as it was written is taken for none at all.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from tilewright.machine import Bandwidth, Cache, Machine
from tilewright.support import knobs
from tilewright.support.cache import DiskCache, digest, open_cache

_KIND = "machine"
#: Raised when the fields of `Machine` change their meaning, so that older measurements are not read.
_VERSION = "4"
_KEY_LENGTH = 12

_NESTED: dict[str, type[Cache | Bandwidth]] = {
    "l1": Cache, "l2": Cache, "l3": Cache,
    "read_l2": Bandwidth, "read_l3": Bandwidth, "read_memory": Bandwidth,
}  # fmt: skip

_last: dict[tuple[str, str], str] = {}


def store(machine: Machine, identity: str, cache: DiskCache | None = None) -> str:
    """Keep the figures as those of the machine `identity`; their digest, or "" where the cache cannot keep them."""
    cache = cache or open_cache()
    text = json.dumps(dataclasses.asdict(machine), sort_keys=True)
    key = _digest(text)
    kept = cache.put(_KIND, key, text.encode()) and cache.put(_KIND, _position(identity), key.encode())
    _last.clear()
    return key if kept else ""


def stored(key: str, cache: DiskCache | None = None) -> Machine | None:
    """The figures of the digest `key`; None where they are not here or do not read back."""
    data = (cache or open_cache()).get(_KIND, key)
    if data is None:
        return None
    try:
        text = data.decode()
        return _from_json(json.loads(text)) if _digest(text) == key else None
    except (ValueError, TypeError, KeyError):
        return None


def stored_key(identity: str) -> str:
    """The digest of this machine's figures as last measured; "" if there are none, or TILEWRIGHT_CALIBRATION=0."""
    if not knobs.CALIBRATION.get() or not knobs.CACHE.get():
        return ""
    position = (str(knobs.CACHE_DIR.get()), identity)
    if position not in _last:
        cache = open_cache()
        key = (cache.get(_KIND, _position(identity)) or b"").decode(errors="replace")
        _last[position] = key if key and stored(key, cache) is not None else ""
    return _last[position]


def _digest(text: str) -> str:
    return digest(_VERSION, text)[:_KEY_LENGTH]


def _position(identity: str) -> str:
    return digest("machine", _VERSION, identity)


def _from_json(fields: dict[str, Any]) -> Machine:
    """The inverse of `dataclasses.asdict`; raises `TypeError`, `KeyError` or `ValueError` for anything else."""
    values: dict[str, Any] = dict(fields)
    for name, level in _NESTED.items():
        values[name] = level(**fields[name])
    return Machine(**values)
