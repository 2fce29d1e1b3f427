"""Kernels launched in float16 for the benchmark networks by our plans, ONNX Runtime's and Inductor's, without a GPU.

    python bench/gpu_peer_plans.py [--networks resnet50,mlp] [--target "cuda -arch=sm_80"] [--folder FOLDER]
                                   [--torch PYTHON]

Ours are the launches of `gpu_plan.py`. ONNX Runtime's are the nodes of the graph that it optimizes for itself, less
those that only rename memory; a node is one kernel at least. "For CUDA" leaves out the fusions that its table of
transformers (onnxruntime/core/optimizer/graph_transformer_utils.cc) has for processors alone: of activations into
convolutions and products; "all" has these too, as if its CUDA provider did. Inductor's are those of
`inductor_plans.py`, run by `--torch`, a Python with PyTorch and torchvision; a dash stands without one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import gpu_plan
import onnx
import onnxruntime
from networks import NETWORKS, model_file

from tilewright.backend.gpu import architectures

#: Operators whose result is their input's memory, or that are read by the host.
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Shape", "Constant")
#: Layouts of processors, which no count is of.
_LAYOUTS = ("NchwcTransformer",)
#: Fusions that ONNX Runtime 1.23's table has for processors and not for CUDA.
_NOT_FOR_CUDA = ("ConvActivationFusion", "ConvAddActivationFusion", "GemmActivationFusion")


def onnxruntime_kernels(path: Path, without: Sequence[str]) -> int:
    """Nodes of the graph that ONNX Runtime optimizes of a model, less views."""
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.optimized_model_filepath = str(Path(folder, "optimized.onnx"))
        options.log_severity_level = 4
        providers = ["CPUExecutionProvider"]
        onnxruntime.InferenceSession(str(path), options, providers=providers, disabled_optimizers=list(without))
        nodes = onnx.load(options.optimized_model_filepath, load_external_data=False).graph.node
    return sum(node.op_type not in _VIEWS for node in nodes)


def inductor_kernels(python: str, names: Sequence[str]) -> dict[str, str]:
    """The number of kernels of each network's plan, or "–" where Inductor made none."""
    script = Path(__file__).with_name("inductor_plans.py")
    done = subprocess.run([python, script, *names], stdout=subprocess.PIPE, text=True, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {row["network"]: str(row.get("kernels", "–")) for row in rows}


def main() -> None:
    """Print a row of Markdown a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--target", default="cuda -arch=sm_80")
    parser.add_argument("--folder", type=Path, default=Path("build/networks"), help="where filled networks are kept")
    parser.add_argument("--torch", help="a Python that has PyTorch and torchvision")
    given = parser.parse_args()
    architectures.machine_code = lambda *_, **__: {}  # the plan needs none
    names = given.networks.split(",")
    inductor = inductor_kernels(given.torch, names) if given.torch else {}
    print("| network | ours | ONNX Runtime, for CUDA | all its fusions | Inductor |\n|---|---|---|---|---|", flush=True)
    for name in names:
        path, _ = model_file(name, given.folder)
        nodes = [onnxruntime_kernels(path, [*_LAYOUTS, *more]) for more in (_NOT_FOR_CUDA, ())]
        ours = gpu_plan.plan(name, "float16", given.target, [], given.folder)["launches"]
        print(f"| {name} | {ours} | {nodes[0]} | {nodes[1]} | {inductor.get(name, '–')} |", flush=True)


if __name__ == "__main__":
    main()
