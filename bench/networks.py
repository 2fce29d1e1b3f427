"""Measure every network and real model beside onnxruntime and OpenVINO; write JSON and a Markdown table.

    python bench/networks.py [--threads 2] [--seconds 6] [--only resnet18,mlp] [--json FILE] [--markdown FILE]

Each model runs in a process of its own, all engines interleaved in it with the same number of threads; minimum and
median are over the rounds. The models come from ../shared/models; the networks are filled with seeded weights first.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

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
}


def model_file(name: str, folder: Path) -> tuple[Path, dict[str, tuple[int, ...]]]:
    """The ONNX file and input shapes of a model; a network is filled into `folder` on first use."""
    if name in REAL_MODELS:
        relative, shapes = REAL_MODELS[name]
        return MODELS / "real" / "onnx" / relative, shapes
    path = folder / f"{name}.onnx"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, MODELS / "nets" / "fill.py", name, path], check=True)
    return path, {}


def measure_one(name: str, args: argparse.Namespace) -> dict[str, object]:
    """Compile and time one model in this process."""
    import tilewright as tw
    from tilewright.cli.bench import bench
    from tilewright.support import trace

    path, shapes = model_file(name, Path(args.folder))
    with trace.collect() as cold:
        tw.compile(str(path), input_shapes=shapes, threads=args.threads, cache=False)
    tw.compile(str(path), input_shapes=shapes, threads=args.threads)
    start = time.perf_counter()
    executable = tw.compile(str(path), input_shapes=shapes, threads=args.threads)
    warm = time.perf_counter() - start
    timings = bench(executable, str(path), args.compare.split(","), args.seconds, args.rounds)
    stages = {"/".join(row.path): row.seconds for row in cold.rows()}
    return {
        "model": name,
        "threads": args.threads,
        "compile_seconds": cold.seconds,
        "cached_compile_seconds": warm,
        "stages": stages,
        "timings": [asdict(timing) for timing in timings],
    }


def markdown(records: list[dict], threads: int) -> str:
    """The table: milliseconds of each engine (minimum and median), the ratio, and the compile times."""
    lines = [
        f"{threads} threads on {machine()}. Times are milliseconds, minimum / median of interleaved rounds; the ratio "
        "is the minimum of the faster peer over ours, so above 1 means that ours is faster.",
        "",
        "| model | tilewright | onnxruntime | openvino | ratio | compile s | cached s |",
        "|---|---|---|---|---|---|---|",
    ]
    ratios = []
    for record in records:
        times = {t["engine"]: t for t in record["timings"]}
        peers = [t["minimum_ms"] for name, t in times.items() if name != "tilewright"]
        ratio = min(peers) / times["tilewright"]["minimum_ms"]
        ratios.append(ratio)
        cells = [
            f"{times[e]['minimum_ms']:.2f} / {times[e]['median_ms']:.2f}" if e in times else "–"
            for e in ("tilewright", "onnxruntime", "openvino")
        ]
        lines.append(
            f"| {record['model']} | {' | '.join(cells)} | {ratio:.2f} | {record['compile_seconds']:.1f} "
            f"| {record['cached_compile_seconds']:.2f} |"
        )
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines += ["", f"Geometric mean of the ratios: {mean:.2f}; lowest {min(ratios):.2f}."]
    return "\n".join(lines) + "\n"


def machine() -> str:
    """The processor, the number of cores and the system, in one phrase."""
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.processor(),
    )
    return f"{model}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}"


def main() -> None:
    """Run each model in its own process and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--compare", default="onnxruntime,openvino")
    parser.add_argument("--only", default=",".join((*NETWORKS, *REAL_MODELS)))
    parser.add_argument("--folder", default=str(ROOT / "build" / "networks"))
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure_one(args.child, args)))
        return
    records, failed = [], []
    for name in args.only.split(","):
        model_file(name, Path(args.folder))
        done = subprocess.run(
            [sys.executable, __file__, *sys.argv[1:], "--child", name], stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            failed.append(name)
            continue
        records.append(json.loads(done.stdout.splitlines()[-1]))
        print(markdown(records[-1:], args.threads).splitlines()[4], flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps({"machine": machine(), "records": records}, indent=1) + "\n")
    if args.markdown:
        Path(args.markdown).write_text(markdown(records, args.threads))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
