"""Counts of the operators that trained models use, by format, for docs/frontends.md.

    python -m bench.frontends.usage        # writes bench/frontends/usage.json

Counted is what the importers look for a converter for, once a node, in the models of ../shared/models/real.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.errors import UserError
from tilewright.frontend import converters
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.keras import importer as keras_importer

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models" / "real"
RESULT = Path(__file__).with_name("usage.json")
#: Folders of formats, and what a model is there.
PATTERNS = {
    "onnx": "*/*.onnx", "tflite": "*/*.tflite", "keras": "*/*.keras", "coreml": "*/*.mlpackage",
    "tf_savedmodel": "*/*", "caffe": "*/*.prototxt", "darknet": "*/*.cfg",
}  # fmt: skip


def counted(function: Callable[..., Any], name_of: Callable[..., str], counts: Counter[str]) -> Callable[..., Any]:
    """`function`, which looks for a converter, with its look-ups counted."""

    def find(*args: Any, **options: Any) -> Any:
        counts[name_of(*args)] += 1
        return function(*args, **options)

    return find


def main() -> None:
    """Convert all models, and write the counts by format."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    converters.Converters.find = counted(  # type: ignore[method-assign]
        converters.Converters.find, lambda table, operator, *rest: operator, counts
    )
    for name in ("find_layer", "find_operation"):
        if hasattr(keras_importer, name):
            setattr(keras_importer, name, counted(getattr(keras_importer, name), lambda name, *rest: name, counts))
    found: dict[str, Any] = {}
    for folder, pattern in PATTERNS.items():
        for path in sorted((MODELS / folder).glob(pattern)):
            if folder == "tf_savedmodel" and not path.is_dir():
                continue
            counts.clear()
            frontend = frontend_of(path)
            try:
                frontend.convert(path, None)
            except UserError as error:
                print(f"{path}: {str(error).splitlines()[0]}")
            entry = found.setdefault(frontend.name, {"models": 0, "operators": {}})
            entry["models"] += 1
            for operator, count in counts.items():
                entry["operators"][operator] = entry["operators"].get(operator, 0) + count
            print(f"{path.relative_to(MODELS)}: {sum(counts.values())} of {len(counts)} operators")
    for entry in found.values():
        entry["operators"] = dict(sorted(entry["operators"].items(), key=lambda item: (-item[1], item[0])))
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
