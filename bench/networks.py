"""Measure every network and real model beside onnxruntime and OpenVINO; write JSON and a Markdown table.

    python bench/networks.py [--set zoo|brought] [--threads 1,2] [--seconds 6] [--only resnet18,mlp] [--json FILE]
                             [--markdown FILE]

Each model runs in a process of its own, all engines in turns in it with the same number of threads
(`tilewright.cli.timing.measure`); minimum and median are over all timed calls. The models come from ../shared/models;
the networks are filled with seeded weights first. Those of `--set zoo`, of more kinds, and of `--set brought`, as
exporters and quantizers leave them, are built by `bench/zoo`.
`--smoke` runs the smallest network a few times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import zoo
from report import OURS, cell, geometric_mean, machine, ratio_to_peers, table, thread_counts, versions

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT.parent / "shared" / "models"
NETWORKS = (
    "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_large", "squeezenet1_1", "efficientnet_b0", "densenet121",
    "inception_v3", "vgg16", "vit_b_16", "bert_base_128", "lstm_lm", "dqn", "dcgan", "mlp",
)  # fmt: skip
#: name -> (file below shared/models/real/onnx, input shapes)
REAL_MODELS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "ppocr_cls": ("ppocr_cls/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}),
    "ppocrv4_det_640": ("ppocrv4_det/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 640, 640)}),
    "ppocrv4_det_320": ("ppocrv4_det/ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 480)}),
    "basic_pitch": ("basic_pitch/nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}),
    "magika": ("magika/model.onnx", {"bytes": (1, 2048)}),
    "aecmos": ("aecmos/Run_1663829550_Stage_0.onnx", {"input": (1, 3, 400, 160)}),
    "smart_turn_v3_int8": ("smart_turn_v3_int8/smart-turn-v3.2-cpu.onnx", {"input_features": (1, 80, 800)}),
}

#: What `--set` names: "benchmark" is what figures of the compiler as a whole are given for, "zoo" is of many kinds.
#: "brought" in the forms in which users bring them, sizes open.
SETS = {"benchmark": (*NETWORKS, *REAL_MODELS), "zoo": tuple(zoo.NETWORKS), "brought": tuple(zoo.BROUGHT)}


def model_file(name: str, folder: Path) -> tuple[Path, dict[str, tuple[int, ...]]]:
    """The ONNX file and input shapes of a model; a network is filled or built into `folder` on first use."""
    if name in REAL_MODELS:
        relative, shapes = REAL_MODELS[name]
        return MODELS / "real" / "onnx" / relative, shapes
    path = folder / f"{name}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if name in zoo.NETWORKS or name in zoo.BROUGHT:
            model = zoo.NETWORKS[name]() if name in zoo.NETWORKS else zoo.BROUGHT[name]()[0]
            path.write_bytes(model.SerializeToString())
            return path, {}
        subprocess.run([sys.executable, MODELS / "nets" / "fill.py", name, path], check=True)
    return path, {}


def measure_one(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """Compile one model and time it in this process: a record for each number of threads."""
    import tilewright as tw
    from tilewright.cli.bench import bench
    from tilewright.support import trace

    path, shapes = model_file(name, Path(args.folder))
    with trace.collect() as cold:
        tw.compile(str(path), input_shapes=shapes, cache=False)
    tw.compile(str(path), input_shapes=shapes)
    start = time.perf_counter()
    executable = tw.compile(str(path), input_shapes=shapes)
    warm = time.perf_counter() - start
    stages = {"/".join(row.path): row.seconds for row in cold.rows()}
    engines = [engine for engine in args.compare.split(",") if engine]
    inputs = zoo.BROUGHT[name]()[1] if name in zoo.BROUGHT else None
    records = []
    for threads in args.threads:
        executable.set_threads(threads)
        timings = bench(executable, str(path), engines, args.seconds, args.rounds, [inputs] if inputs else ()).timings
        records.append(
            {
                "model": name,
                "threads": threads,
                "compile_seconds": cold.seconds,
                "cached_compile_seconds": warm,
                "stages": stages,
                "timings": [asdict(timing) for timing in timings],
            }
        )
    return records


def row(record: dict[str, Any], engines: Sequence[str]) -> list[str]:
    """One line of the table: milliseconds of each engine, the ratio, and the compile times."""
    times = {t["engine"]: t for t in record["timings"]}
    cells = [
        f"{times[engine]['minimum_ms']:.2f} / {times[engine]['median_ms']:.2f}" if engine in times else "–"
        for engine in engines
    ]
    compiling = (f"{record['compile_seconds']:.1f}", f"{record['cached_compile_seconds']:.2f}")
    return [record["model"], *cells, cell(ratio(record)), *compiling]


def ratio(record: dict[str, Any]) -> float | None:
    """The minimum of the faster peer over ours."""
    return ratio_to_peers({t["engine"]: t["minimum_ms"] for t in record["timings"]})


def markdown(records: Sequence[dict[str, Any]], threads: int) -> str:
    """The table of one number of threads, and what its figures are."""
    records = [record for record in records if record["threads"] == threads]
    engines = list(dict.fromkeys([OURS, *(t["engine"] for record in records for t in record["timings"])]))
    heading = ["model", *engines, "ratio", "compile s", "cached s"]
    lines = [
        f"{threads} thread{'s' if threads > 1 else ''} on {machine()}. Times are milliseconds, minimum / median of all "
        "timed calls; the ratio is the minimum of the faster peer over ours, so above 1 means that ours is faster.",
        "",
        table(heading, [row(record, engines) for record in records]),
    ]
    ratios = [value for value in map(ratio, records) if value is not None]
    if ratios:
        lines.append(f"Geometric mean of the ratios: {geometric_mean(ratios):.2f}; lowest {min(ratios):.2f}.\n")
    return "\n".join(lines)


def measure_in_own_process(name: str, folder: Path) -> list[dict[str, Any]] | None:
    """The records of one model, measured in a fresh process; None where that fails."""
    model_file(name, folder)
    command = [sys.executable, __file__, *sys.argv[1:], "--child", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return None if done.returncode else json.loads(done.stdout.splitlines()[-1])


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=thread_counts, default=(2,))
    parser.add_argument("--seconds", type=float, default=6.0, help="of each model on each number of threads")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--compare", default="onnxruntime,openvino")
    parser.add_argument("--set", choices=SETS, default="benchmark")
    parser.add_argument("--only", help="names, separated by commas, instead of a whole set")
    parser.add_argument("--folder", default=str(ROOT / "build" / "networks"))
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--smoke", action="store_true", help="the smallest network, a few rounds")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.only = args.only or ",".join(SETS[args.set])
    if args.smoke:
        args.only, args.seconds, args.rounds = "mlp", 0.01, 5
    return args


def main() -> None:
    """Run each model in its own process and write the results."""
    args = options()
    if args.child:
        print(json.dumps(measure_one(args.child, args)))
        return
    records: list[dict[str, Any]] = []
    failed = []
    for name in args.only.split(","):
        measured = measure_in_own_process(name, Path(args.folder))
        if measured is None:
            failed.append(name)
            continue
        records += measured
        for record in measured:
            figures = row(record, [t["engine"] for t in record["timings"]])
            print(f"threads {record['threads']}:", " | ".join(figures), flush=True)
    if args.json:
        about = {"machine": machine(), "versions": versions(), "records": records}
        Path(args.json).write_text(json.dumps(about, indent=1) + "\n")
    if args.markdown:
        Path(args.markdown).write_text("\n\n".join(markdown(records, threads) for threads in args.threads))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
