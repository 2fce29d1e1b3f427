"""Trained models of each format damaged in many ways: each must be refused by one error, or still be a model.

    python -m bench.frontends.mutations [--count 500] [--only FORMAT] [--megabytes 3000] [--seconds 300]
        [--made FOLDER]

Each format runs in a process of its own with a bound on its memory. What is neither is printed with its seed. Of
Caffe2 there is no trained model: the nets of two small networks of the tests are damaged. Nor is there one of Paddle
and MXNet: `--made` names the folder with what `paddle_networks --save FOLDER/paddle`, the same with `--legacy` and
FOLDER/paddle_legacy, and `mxnet_networks --save FOLDER/mxnet` wrote. Archives of PyTorch are damaged by
`torch_damaged.py`, in processes that may die.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.frontend.caffe2 import builder as caffe2
from tests.frontend.running import mutations
from tilewright.errors import UserError

MODELS = Path(__file__).resolve().parents[3] / "shared" / "models" / "real"

Shapes = dict[str, tuple[int, ...]]

CAFFE2 = "caffe2"

#: Of each format a model's file, and the one that is damaged where that is another.
FILES: dict[str, list[tuple[str, str]]] = {
    "onnx": [("onnx/basic_pitch/nmp.onnx", "")],
    "tflite": [
        ("tflite/micro_wakeword/hey_jarvis.tflite", ""),
        ("tflite/mlperf_tiny/pretrainedResnet_quant.tflite", ""),
    ],
    "keras": [("keras/deepcut/deepcut_rebuilt.keras", "")],
    "coreml": [("coreml/basic_pitch/nmp.mlpackage", "Data/com.apple.CoreML/model.mlmodel")],
    "tensorflow": [("tf_savedmodel/basic_pitch/nmp", "saved_model.pb")],
    "caffe": [("caffe/wechat_qr/sr.prototxt", ""), ("caffe/wechat_qr/sr.prototxt", "sr.caffemodel")],
    "darknet": [("darknet/yolo_fastest/yolo-fastest-1.1.cfg", "")],
}

#: The same in the folder `--made`, with the shapes of the inputs where the file does not say them.
MADE: dict[str, list[tuple[str, str, Shapes | None]]] = {
    "paddle": [
        ("paddle/detector/net.json", "", None), ("paddle/lstm/net.json", "", None),
        ("paddle/detector/net.json", "net.pdiparams", None), ("paddle_legacy/unet/net.pdmodel", "", None),
        ("paddle_legacy/unet/net.pdmodel", "net.pdiparams", None),
    ],
    "mxnet": [
        ("mxnet/detector/net-symbol.json", "", {"data": (1, 3, 64, 64)}),
        ("mxnet/lstm/net-symbol.json", "", {"data": (2, 7, 20)}),
        ("mxnet/words_interleaved/net-symbol.json", "", {"data": (2, 12)}),
        ("mxnet/lstm/net-symbol.json", "net-0000.params", {"data": (2, 7, 20)}),
    ],
}  # fmt: skip


def seeds(name: str, made: Path | None) -> list[tuple[Path, str, Shapes | None]]:
    """(the model, the file that is damaged, shapes of inputs) of a format."""
    found: list[tuple[Path, str, Shapes | None]] = [(MODELS / path, part, None) for path, part in FILES.get(name, ())]
    return found + [(made / path, part, shapes) for path, part, shapes in MADE.get(name, ()) if made is not None]


def caffe2_nets(folder: Path) -> list[tuple[Path, str, Shapes | None]]:
    """As `seeds`: the nets of two networks, written to `folder`."""
    found: list[tuple[Path, str, Shapes | None]] = []
    for kind, (weights, operators) in caffe2.NETWORKS.items():
        (folder / kind).mkdir()
        for part, contents in zip(("predict_net.pb", "init_net.pb"), caffe2.nets(weights, *operators), strict=True):
            (folder / kind / part).write_bytes(contents)
        found += [(folder / kind / "predict_net.pb", part, {"x": caffe2.SHAPE}) for part in ("", "init_net.pb")]
    return found


def copies(model: Path, damaged: str, count: int, folder: Path) -> Iterator[Path]:
    """The path of `model` with one file of it, or itself, damaged in `count` ways, one after the other."""
    if model.is_dir():
        target = folder / model.name
        shutil.copytree(model, target)
        position, original = target / damaged, (model / damaged).read_bytes()
    else:
        for beside in model.parent.iterdir():
            if beside.is_file():
                shutil.copy(beside, folder / beside.name)
        target, name = folder / model.name, damaged or model.name
        position, original = folder / name, (model.parent / name).read_bytes()
    for data in mutations(original, count):
        position.write_bytes(data)
        yield target


def one_format(
    name: str, files: list[tuple[Path, str, Shapes | None]], count: int, megabytes: int, seconds: float, results: Any
) -> None:
    """Counts of what came of each copy, and the first lines of what should not have."""
    from tilewright.frontend.formats.table import FRONTENDS  # in the process that has the bound

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
    convert: Callable[..., Any] = next(one for one in FRONTENDS if one.name == name).convert
    counts: Counter[str] = Counter()
    worst, faults, begun = 0.0, [], time.monotonic()
    for model, damaged, shapes in files:
        with tempfile.TemporaryDirectory() as folder:
            for number, path in enumerate(copies(model, damaged, -(-count // len(files)), Path(folder))):
                start = time.monotonic()
                if start - begun > seconds:
                    break
                try:
                    convert(path, shapes)
                    counts["still a model"] += 1
                except UserError:
                    counts["refused"] += 1
                except BaseException as error:  # whatever it is, it is what is looked for
                    counts["FAULT"] += 1
                    faults.append(f"{model} {damaged} {number}: {type(error).__name__}: {str(error)[:200]}")
                worst = max(worst, time.monotonic() - start)
    results.put((counts, worst, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, faults))


def main() -> None:
    """A line a format."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--only")
    parser.add_argument("--megabytes", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--made", type=Path)
    args = parser.parse_args()
    for name in (*FILES, *MADE, CAFFE2):
        if args.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            files = caffe2_nets(Path(folder)) if name == CAFFE2 else seeds(name, args.made)
            if files:
                print_counts(name, files, args)


def print_counts(name: str, files: list[tuple[Path, str, Shapes | None]], args: argparse.Namespace) -> None:
    """The counts and the faults of a process of its own."""
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    bounds = (args.count, args.megabytes, args.seconds)
    child = context.Process(target=one_format, args=(name, files, *bounds, results))
    child.start()
    while child.is_alive() and results.empty():
        time.sleep(0.2)
    if results.empty():
        print(f"{name}: the process ended with {child.exitcode}")
        return
    counts, worst, most, faults = results.get()
    child.join()
    print(f"{name}: {dict(counts)}, the longest {worst:.1f} s, at most {most} MB")
    for fault in faults[:20]:
        print(f"  {fault}")


if __name__ == "__main__":
    main()
