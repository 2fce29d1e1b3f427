"""Text of WGSL with lines for devices that have a feature, and lines for the others.

    //#if shader-f16
    @group(0) @binding(0) var<storage, read_write> x: array<f16>;
    //#else
    @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
    //#end

The language has no preprocessor: whoever makes a module of the text leaves one of both out first, `for_features` here,
`gpu.mjs` in a browser. Blocks do not stand within each other.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

#: Elements of 16-bit floats (W3C, WebGPU, section on feature `shader-f16`); values of a subgroup's other threads.
HALF, SUBGROUPS = "shader-f16", "subgroups"
#: What a module says first that uses a feature.
_ENABLED = {HALF: "f16", SUBGROUPS: "subgroups"}
_BLOCK = re.compile(r"^ *//#if (\S+)\n(.*?)^ *//#else\n(.*?)^ *//#end\n", re.MULTILINE | re.DOTALL)


def either(feature: str, lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """The lines of a block: `lines` where the device has the feature, else `others`."""
    return [f"//#if {feature}", *lines, "//#else", *others, "//#end"]


def for_features(text: str, features: Collection[str], enabled: Collection[str] | None = None) -> str:
    """The text for a device with these features; those of `enabled`, by default all, are named at its beginning."""
    used = {feature for feature in features if f"//#if {feature}\n" in text}
    made = _BLOCK.sub(lambda found: found[2] if found[1] in features else found[3], text)
    named = used if enabled is None else used.intersection(enabled)
    return "".join(f"enable {_ENABLED[feature]};\n" for feature in sorted(named)) + made
