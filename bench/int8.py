"""Quantized networks on instructions for bytes of several generations, beside float32 and the other engines.

    python bench/int8.py [--only resnet50,bert_base_128] [--activations int8,uint8] [--seven-bits] [--threads 2]
                         [--compare onnxruntime,openvino] [--seconds 10] [--folder FOLDER] [--json FILE] [--smoke]

The networks are those of `bench/networks.py` in QDQ form by onnxruntime's quantizer, with int8 weights by channel;
smart_turn comes as bytes. Each is compiled for this processor, with VNNI and no matrix registers, with AVX-512 and no
VNNI, and with AVX2 and no VNNI, as far as this processor runs such code; in float32 for this processor and for
AVX2. Each model runs in a process of its own, all of these and the engines in turns in it.

A cell is minimum / median in milliseconds. "Over peers" is the time of the faster engine over ours, "over float32" that
of our float32 code for the same vectors over ours, both by minima; the last rows are geometric means.
`--smoke` runs the smallest network a few times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from networks import model_file
from quantized import quantized
from report import cell, geometric_mean, machine, table, versions

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "bert_base_128", "vit_b_16", "lstm_lm", "smart_turn_v3_int8")
#: Networks that come as bytes: neither quantized here nor known in float32.
QUANTIZED = ("smart_turn_v3_int8",)
#: Name of the code -> processor, and which float32 it is compared with.
CODE = {
    "native": ("", "float32"),
    "VNNI": ("icelake-server", "float32"),
    "AVX-512": ("skylake-avx512", "float32"),
    "AVX2": ("haswell", "float32 AVX2"),
}
FLOATS = {"float32": "", "float32 AVX2": "haswell"}


def main() -> int:
    """Measure each network in a process of its own, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--activations", default="int8,uint8")
    parser.add_argument("--seven-bits", action="store_true", help="weights of 7 bits")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compare", default="onnxruntime,openvino")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "networks")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.smoke:
        args.only, args.activations, args.seconds = "mlp", "int8", 0.1
    if args.one:
        print(json.dumps(measure_one(args.one, args)))
        return 0
    records = []
    for name in args.only.split(","):
        for activations in args.activations.split(",")[: 1 if name in QUANTIZED else None]:
            command = [sys.executable, __file__, *sys.argv[1:], "--one", name, "--activations", activations]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            records.append(json.loads(done.stdout.splitlines()[-1]))
            print(*lines_of(records[-1]), sep="\n", flush=True)
    if args.json:
        facts = {"machine": machine(), "threads": args.threads, "versions": versions()}
        args.json.write_text(json.dumps({**facts, "results": records}, indent=1) + "\n")
    print(markdown(records), end="")
    return 0


def measure_one(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """The times of one network by all code and engines, in turns."""
    import tilewright as tw
    from tilewright.cli.inputs import random_inputs
    from tilewright.cli.reference import reference_of
    from tilewright.cli.timing import Timing, measure

    path, shapes = model_file(name, args.folder)
    form = f"{args.activations}{'_7' if args.seven_bits else ''}"
    made = path if name in QUANTIZED else quantized(path, args.folder / form, args.activations, args.seven_bits)
    jobs = [(code, made, cpu) for code, (cpu, _) in CODE.items()]
    jobs += [(code, path, cpu) for code, cpu in FLOATS.items()] if name not in QUANTIZED else []
    runs: dict[str, Callable[[], Any]] = {}
    inputs: dict[str, Any] = {}
    for code, file, cpu in jobs:
        target = tw.Target(f"llvm -mcpu={cpu} -cores={args.threads}" if cpu else f"cpu -cores={args.threads}")
        if not target.is_host:
            continue
        model = tw.compile(str(file), input_shapes=shapes, target=target, threads=args.threads)
        inputs = inputs or random_inputs(model.inputs, 0)
        runs[code] = partial(model.run, inputs)
    for engine in filter(None, args.compare.split(",")):
        try:
            runs[engine] = reference_of(str(made)).open(engine, inputs, args.threads, exact=False).run
            runs[engine]()
        except Exception as error:  # the engines' bindings have no exception class in common
            runs.pop(engine, None)
            print(f"{name}: {engine} does not run it: {str(error).splitlines()[-1:]}", file=sys.stderr)
    found = measure(runs, args.seconds, 1000)
    timings = [Timing.of(code, "", seconds) for code, seconds in found.times.items()]
    return {"model": name, "activations": form, "load": found.load,
            "times": {t.engine: [t.minimum_ms, t.median_ms] for t in timings}}  # fmt: skip


def over_peers(record: Mapping[str, Any], code: str) -> float | None:
    """The minimum of the faster engine over that of `code`."""
    times = record["times"]
    peers = [low for engine, (low, _) in times.items() if engine not in (*CODE, *FLOATS)]
    return min(peers) / times[code][0] if peers and code in times else None


def over_float32(record: Mapping[str, Any], code: str) -> float | None:
    """The minimum of float32 for the same vectors over that of `code`."""
    times, floats = record["times"], CODE[code][1]
    return times[floats][0] / times[code][0] if floats in times and code in times else None


def lines_of(record: Mapping[str, Any]) -> list[str]:
    """The lines printed of a network as soon as it is measured."""
    times = "  ".join(f"{code} {low:.2f}/{median:.2f}" for code, (low, median) in record["times"].items())
    return [f"{record['model']} {record['activations']}: {times} {record['load']}"]


def markdown(records: Sequence[Mapping[str, Any]]) -> str:
    """The table of times, and that of ratios with their geometric means."""
    columns = list(dict.fromkeys(code for record in records for code in record["times"]))
    names = [[record["model"], record["activations"]] for record in records]
    times = [
        [*name, *(" / ".join(f"{ms:.2f}" for ms in record["times"].get(code, ())) or "–" for code in columns)]
        for name, record in zip(names, records, strict=True)
    ]
    ratios = {(what.__name__.replace("_", " "), code): [what(record, code) for record in records]
              for what in (over_peers, over_float32) for code in CODE}  # fmt: skip
    rows = [[*name, *(cell(found[i]) for found in ratios.values())] for i, name in enumerate(names)]
    known = [[value for value in found if value is not None] for found in ratios.values()]
    rows.append(["geometric mean", "", *(cell(geometric_mean(values) if values else None) for values in known)])
    heading = ["model", "activations", *(f"{code} {what}" for what, code in ratios)]
    return table(["model", "activations", *columns], times) + "\n" + table(heading, rows)


if __name__ == "__main__":
    sys.exit(main())
