"""Identify the type of files with Magika's trained classifier, compiled by Tilewright, beside onnxruntime.

    python examples/identify_files.py FILE...        (default: files of this checkout and of the Python installation)

Needs the package magika, which ships the model, and onnxruntime as the reference: `pip install tilewright[demo]`.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import statistics
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright.cli.timing import TIMED_CALLS, measure
from tilewright.support import trace


def model_folder() -> Path:
    """The folder of the model inside the installed package, found without importing it."""
    spec = importlib.util.find_spec("magika")
    if spec is None or spec.origin is None:
        sys.exit("the package magika, which ships the model, is not installed: pip install tilewright[demo]")
    return next((Path(spec.origin).parent / "models").glob("standard_v*"))


def features(content: bytes, config: dict[str, Any]) -> np.ndarray[Any, Any]:
    """The input of the model: the first and last bytes without surrounding white space, as int32, padded.

    Shape [1, beg_size + end_size]; the padding token stands for "no byte here".
    """
    block, padding = config["block_size"], config["padding_token"]
    begin = content[:block].lstrip()[: config["beg_size"]]
    end = content[-block:].rstrip()[-config["end_size"] :]
    row = np.full(config["beg_size"] + config["end_size"], padding, np.int32)
    row[: len(begin)] = np.frombuffer(begin, np.uint8)
    if end:
        row[-len(end) :] = np.frombuffer(end, np.uint8)
    return row[None]


def default_files() -> list[Path]:
    """A few dozen real files of many kinds that every installation has."""
    here = Path(__file__).resolve().parent.parent
    folders = (here, Path(sysconfig.get_path("stdlib")))
    by_kind: dict[str, list[Path]] = {}
    for folder in folders:
        for path in sorted(path for path in folder.glob("*/*") if path.is_file()):
            if path.parent.name.startswith(".") or path.parent.name == "site-packages":
                continue
            kind = by_kind.setdefault(path.suffix, [])
            if path.stat().st_size >= 64 and len(kind) < 3:
                kind.append(path)
    return [path for group in by_kind.values() for path in group][:50]


def times_in_turns(
    run: dict[str, Callable[[Any], Any]], rows: list[Any], seconds: float = 3.0
) -> dict[str, list[float]]:
    """Seconds of each timed call of each engine on the rows one after another, measured as `tilewright bench` does.

    Single calls that alternate would measure each engine while the threads of the other still spin.
    """
    turns = {name: itertools.cycle(rows) for name in run}
    return measure({name: lambda name=name: run[name](next(turns[name])) for name in run}, seconds, 1000).times


def main() -> None:
    """Compile, compare the top labels of each file, time both engines in turns and say where the time went."""
    import onnxruntime as ort

    folder = model_folder()
    config = json.loads((folder / "config.min.json").read_text())
    labels = config["target_labels_space"]
    files = [Path(name) for name in sys.argv[1:]] or default_files()

    with trace.collect() as times:
        exe = tw.compile(folder / "model.onnx", input_shapes={"bytes": (1, 2048)})
    options = ort.SessionOptions()
    options.intra_op_num_threads = exe.threads
    session = ort.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])

    agree = 0
    rows = [features(path.read_bytes(), config) for path in files]
    print(f"{'ours':16} {'reference':16} {'confidence':>10}  file")
    for path, row in zip(files, rows):
        (scores,) = exe.run({"bytes": row})
        (expected,) = session.run(None, {"bytes": row})
        ours, reference = int(np.asarray(scores).argmax()), int(expected.argmax())
        agree += ours == reference
        print(f"{labels[ours]:16} {labels[reference]:16} {float(np.asarray(scores)[0, ours]):10.4f}  {path.name}")
    print(f"\nthe same label on {agree} of {len(files)} files")
    engines = {
        "tilewright": lambda row: exe.run({"bytes": row}),
        "onnxruntime": lambda row: session.run(None, {"bytes": row}),
    }
    how = f"in turns of {TIMED_CALLS} calls after an untimed one, as `tilewright bench` does"
    print(f"\none file, {exe.threads} threads, {how}:")
    for name, taken in times_in_turns(engines, rows).items():
        print(f"{name:12} minimum {min(taken) * 1e3:7.3f} ms   median {statistics.median(taken) * 1e3:7.3f} ms")
    print(f"\ncompiling took:\n{times.table()}")
    if agree != len(files):
        sys.exit(1)


if __name__ == "__main__":
    main()
