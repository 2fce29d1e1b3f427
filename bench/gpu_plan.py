"""Plans of the benchmark networks for NVIDIA GPUs, without one: kernels, launches, bytes, and a roofline of their time.

    python bench/gpu_plan.py [--networks resnet50,mlp] [--dtypes float32,float16,int8] [--gpus h200,rtx-4090,a100]
                             [--target "cuda -arch=sm_80"] [--folder FOLDER] [--json FILE]

Kernels are lowered, scheduled and planned for the target; the table (`backend/gpu/kernel_table.py`) is of the steps
that the runtime would record; int8 is the network as onnxruntime's quantizer makes it. "Least" are the bytes of inputs,
weights and outputs of the fused calls, each once a call. A GPU's time is a roofline, without and with what launches
take; it is no measurement. `gpu_peer_plans.py` has the launches of other compilers' plans beside these.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from networks import NETWORKS, model_file
from quantized import quantized

from tilewright.backend.gpu import architectures
from tilewright.backend.gpu.kernel_table import kernel_table
from tilewright.backend.gpu.schedule.machine import TABLE
from tilewright.driver.model.build import build_model
from tilewright.frontend.formats.import_model import import_model
from tilewright.relay.transform.quantize.to_mixed_precision import to_mixed_precision
from tilewright.target import Target

_COLUMNS = ("network", "type", "kernels", "launches", "GFLOP", "MB moved", "MB least", "MB weights", "MB arena",
            "allocations", "copies")  # fmt: skip


def plan(name: str, dtype: str, target: str, gpus: list[str], folder: Path) -> dict[str, Any]:
    """One row of the table."""
    path, shapes = model_file(name, folder)
    mod = import_model(quantized(path, folder / "int8") if dtype == "int8" else path, shapes)
    if dtype not in ("float32", "int8"):
        mod = to_mixed_precision(mod, dtype)
    start = time.perf_counter()
    model = build_model(mod, Target(target))
    (used,) = model.manifest.plans
    weights = max((one.offset + one.bytes for one in model.manifest.weights), default=0)
    table = kernel_table(used, model.object_code, weights)
    mega = 1e-6
    return {
        "network": name, "type": dtype, "kernels": len(table.rows) - table.total("copies"),
        "launches": table.total("launches"), "GFLOP": round(table.total("flops") * 1e-9, 3),
        "MB moved": round(table.total("moved") * mega, 2), "MB least": round(table.total("least") * mega, 2),
        "MB weights": round(weights * mega, 2), "MB arena": round(table.arena * mega, 2),
        "allocations": table.allocations, "copies": table.total("copies"),
        **{
            f"{gpu} µs": f"{table.seconds(TABLE[gpu], False) * 1e6:.0f} / {table.seconds(TABLE[gpu]) * 1e6:.0f}"
            for gpu in gpus
        },
        "seconds to compile": round(time.perf_counter() - start, 1),
    }  # fmt: skip


def main() -> None:
    """Print a row of Markdown a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--dtypes", default="float32,float16,int8")
    parser.add_argument("--gpus", default="h200,rtx-4090,a100", help=f"of {', '.join(TABLE)}")
    parser.add_argument("--target", default="cuda -arch=sm_80")
    parser.add_argument("--folder", type=Path, default=Path("build/networks"), help="where filled networks are kept")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    architectures.machine_code = lambda *_, **__: {}  # the plan needs none
    gpus, rows = given.gpus.split(","), []
    columns = [*_COLUMNS, *(f"{gpu} µs" for gpu in gpus)]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for name in given.networks.split(","):
        for dtype in given.dtypes.split(","):
            row = plan(name, dtype, given.target, gpus, given.folder)
            rows.append(row)
            print(f"| {' | '.join(str(row[column]) for column in columns)} |", flush=True)
            if given.json:
                given.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
