"""Products of square matrices, 128 to 2048: ours, onnxruntime, OpenVINO and NumPy, and the measured peak.

    python bench/gemm.py [--threads 1,2] [--sizes 128,512] [--dtype int8] [--seconds 2] [--json FILE] [--markdown FILE]
                         [--smoke]

Each is a model of one MatMul node with a constant weight, of float32, or of one MatMulInteger node (uint8 by int8 with
sums in int32, whose peak is that of dot products; OpenVINO has no such operator). Each number of threads runs in a
process of its own, because NumPy's BLAS reads it once, at import.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

#: What tells the BLAS of a NumPy build how many threads to use.
_BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
SIZES = (128, 256, 512, 1024, 2048)


def measure_sizes(args: argparse.Namespace, threads: int) -> dict[str, Any]:
    """All sizes on one number of threads: the record and its table. To be run in a process of its own."""
    from single import Machine, markdown, measure_single, to_json

    from tilewright.cli.peak import dot_peak, fma_peak

    floats = args.dtype == "float32"
    figures = Machine.measured(threads, min(args.seconds, 0.5), fma_peak if floats else dot_peak)
    engines = [name for name in args.compare.split(",") if name and (floats or name != "openvino")]
    results = []
    for size in args.sizes:
        model, weight = float_product(size) if floats else byte_product(size)
        numpy_run = {"numpy": lambda x, weight=weight: x @ weight} if floats else {}
        results.append(measure_single(str(size), model, figures, engines, args.seconds, args.rounds, numpy_run))
    return {"record": to_json(figures, results), "table": markdown(figures, results)}


def float_product(size: int) -> tuple[Any, Any]:
    """The model of a product of float32 matrices, and its weight."""
    import numpy as np
    from onnx import helper
    from single import one_node_model

    weight = np.random.default_rng(0).standard_normal((size, size), dtype=np.float32)
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    return one_node_model(node, (size, size), (size, size), {"w": weight}), weight


def byte_product(size: int) -> tuple[Any, Any]:
    """The model of a product of bytes, uint8 by int8, and its weight."""
    import numpy as np
    from onnx import TensorProto, helper
    from single import one_node_model

    weight = np.random.default_rng(0).integers(-128, 128, (size, size)).astype(np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"], name="product")
    types = (TensorProto.UINT8, TensorProto.INT32)
    return one_node_model(node, (size, size), (size, size), {"w": weight}, types), weight


def in_own_process(threads: int) -> dict[str, Any]:
    """`measure_sizes` in a fresh process whose BLAS uses `threads` threads."""
    environment = os.environ | dict.fromkeys(_BLAS_VARIABLES, str(threads))
    command = [sys.executable, __file__, *sys.argv[1:], "--child", str(threads)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Measure, print the tables, and store them where asked."""
    from report import machine, thread_counts, versions

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=thread_counts, default=(1, 2))
    parser.add_argument("--sizes", type=thread_counts, default=SIZES)
    parser.add_argument("--dtype", choices=("float32", "int8"), default="float32")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each size")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--compare", default="onnxruntime,openvino")
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--smoke", action="store_true", help="one tiny size, to see that everything runs")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.smoke:
        args.sizes, args.seconds, args.rounds = (32,), 0.01, 5
    if args.child:
        print(json.dumps(measure_sizes(args, args.child)))
        return
    measured = []
    for threads in args.threads:
        measured.append(in_own_process(threads))
        print(measured[-1]["table"], flush=True)
    if args.json:
        record = {"machine": machine(), "versions": versions(), "threads": [one["record"] for one in measured]}
        Path(args.json).write_text(json.dumps(record, indent=1) + "\n")
    if args.markdown:
        Path(args.markdown).write_text("\n\n".join([machine(), *(one["table"] for one in measured)]))


if __name__ == "__main__":
    main()
