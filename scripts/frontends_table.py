"""Write docs/frontends.md: which formats are read, and of each the operators that have a converter.

python scripts/frontends_table.py           # prints the page
python scripts/frontends_table.py --write   # writes it
python scripts/frontends_table.py --check   # fails where it is not current
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tilewright.frontend.formats.table import FRONTENDS
from tilewright.frontend.interface import Frontend

PAGE = Path(__file__).resolve().parents[1] / "docs" / "frontends.md"
#: What `python -m bench.frontends.usage` counted.
USAGE = Path(__file__).resolve().parents[1] / "bench" / "frontends" / "usage.json"

_HEAD = """# Formats

The formats that models come in, as `frontend/formats/table.py` lists them, and of each what has a converter:
`scripts/frontends_table.py` writes this page, and a test keeps it current. A model is recognized by its contents, never
by its name. What has no converter is refused with one message that names every such operator, how often it comes and
where first; a plug-in can bring it ([plugins.md](plugins.md)).

## One interface

The same calls run a model of every format ([examples/any_model.py](../examples/any_model.py)):

```python
exe = tw.compile(model, input_shapes=[(1, 3, 224, 224)], signature="serving_default", outputs=["features/relu"])
states = tw.initial_states(model)
results = exe.run({"x": x, **states})
labels = tw.metadata(model).labels
```

| option | command line | what it means |
|---|---|---|
| `input_shapes` | `--input-shapes "x:[1,3],1:[8]"` | sizes by an input's name or position; a string: symbolic |
| `signature` | `--signature NAME` | a signature (TensorFlow, TFLite) or function (Core ML); refused elsewhere |
| `outputs` | `--outputs a,b` | results in this order: some of the model's own, or those of nodes within it |
| `tw.initial_states(model)` | taken by `run`, `bench` … | states before the first run (Darknet, Keras, TFLite) |
| `tw.metadata(model)` | – | labels (Core ML, ONNX, TFLite), normalization (TFLite), who made it |

A node goes by its name in the file, or the end of it where that is the only one (`relu` of `features/relu`);
`split:1` is the second result of one that has several. It has to have a call in what the importer makes of it: what is
folded to a constant, or passes its input on, has none. Inputs that the results do not need are left out. Of a frozen
graph of TensorFlow only the part that `outputs` need is looked at. `verify` and `bisect` compare whole models and take
neither `--signature` nor `--outputs`.

## Which formats

The last column counts the trained models that the tests use: how many operators they have, of how many kinds, and how
often one of those without a converter comes.

| format | what is read | converters | of the format's own list | in trained models |
|---|---|---|---|---|
"""


def page() -> str:
    """The page's text."""
    rows, parts = [], []
    for frontend in FRONTENDS:
        groups = frontend.operators()
        count = ", ".join(f"{len(names)} {kind}" for kind, names in groups.items()) or "–"
        rows.append(f"| {frontend.name} | {frontend.kind} | {count} | {_share(frontend)} | {_used(frontend)} |\n")
        for kind, names in groups.items():
            parts.append(f"\n## {frontend.name}: {kind}\n\n{_listed(names)}\n")
        if _usage(frontend):
            parts.append(f"\nMost used:\n\n{_listed(_most_used(frontend))}\n")
        if frontend.missing():
            parts.append(f"\nWithout a converter:\n\n{_listed(frontend.missing() or [])}\n")
    return _HEAD + "".join(rows) + "".join(parts)


def _share(frontend: Frontend) -> str:
    missing = frontend.missing()
    return "–" if missing is None else f"{len(missing)} missing"


def _usage(frontend: Frontend) -> dict[str, int]:
    """Counts of its operators in trained models."""
    found: dict[str, int] = json.loads(USAGE.read_text()).get(frontend.name, {}).get("operators", {})
    return found


def _used(frontend: Frontend) -> str:
    counts, missing = _usage(frontend), set(frontend.missing() or [])
    if not counts:
        return "–"
    models = json.loads(USAGE.read_text())[frontend.name]["models"]
    without = sum(count for name, count in counts.items() if name in missing)
    return f"{models} with {sum(counts.values())} of {len(counts)} kinds; {without} without a converter"


def _most_used(frontend: Frontend) -> list[str]:
    """The ten that come most often, with their counts."""
    return [f"{name} {count}" for name, count in list(_usage(frontend).items())[:10]]


def _listed(names: list[str]) -> str:
    """Names in lines of at most 118 characters."""
    lines, line = [], ""
    for index, name in enumerate(names):
        piece = f"`{name}`" + ("," if index + 1 < len(names) else "")
        if line and len(line) + len(piece) + 1 > 118:
            lines.append(line)
            line = piece
        else:
            line = f"{line} {piece}".strip()
    return "\n".join([*lines, line])


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    elif "--check" in sys.argv:
        if not PAGE.is_file() or PAGE.read_text() != page():
            sys.exit("docs/frontends.md is not current; run scripts/frontends_table.py --write")
    else:
        print(page(), end="")
