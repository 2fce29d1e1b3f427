"""Networks on an NVIDIA GPU beside PyTorch: numbers compared, times of one inference by replays of graphs.

    python bench/gpu_networks.py [--networks resnet50,vit_b_16,bert] [--batches 1,32] [--dtypes float16,float32]
                                 [--modes eager,default,max-autotune] [--profile N] [--json FILE]

Needs torch with CUDA, torchvision and transformers (the networks have random weights, nothing is downloaded). Ours is
compiled from `torch.export`; torch's modes are run by CUDA graphs too, so that no Python stands between kernels. Times
are those of `RUNS` replays one after the other, in turns, minimum and median over `ROUNDS`; errors are relative to the
largest result in float32 on the host. `--profile N` lists the N kernels that take longest.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw

RUNS, ROUNDS = 20, 7


def networks() -> dict[str, Callable[[int], tuple[Any, tuple[Any, ...]]]]:
    """By name, a function of the batch that makes a module in evaluation mode and its arguments."""
    import torch
    import torchvision

    def image(build: Callable[..., Any], size: int = 224) -> Callable[[int], tuple[Any, tuple[Any, ...]]]:
        return lambda batch: (build(weights=None).eval(), (torch.randn(batch, 3, size, size),))

    def bert(batch: int) -> tuple[Any, tuple[Any, ...]]:
        from transformers import BertConfig, BertModel

        model = BertModel(BertConfig(attn_implementation="eager"), add_pooling_layer=False).eval()

        class LastHiddenState(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.model = model

            def forward(self, tokens: Any) -> Any:
                return self.model(tokens).last_hidden_state

        return LastHiddenState(), (torch.randint(0, 30000, (batch, 128)),)

    models = torchvision.models
    return {
        "resnet18": image(models.resnet18),
        "resnet50": image(models.resnet50),
        "mobilenet_v2": image(models.mobilenet_v2),
        "vit_b_16": image(models.vit_b_16),
        "bert": bert,
    }


def torch_replay(module: Any, args: tuple[Any, ...], mode: str) -> Callable[[], Any]:
    """A function that replays an inference of torch's, captured as a CUDA graph; it returns the result."""
    import torch

    made = (
        module
        if mode == "eager"
        else torch.compile(module, mode=None if mode == "default" else f"{mode}-no-cudagraphs")
    )
    stream = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(stream):
        for _ in range(3):
            result = made(*args)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        result = made(*args)

    def replay() -> Any:
        graph.replay()
        return result

    return replay


def timed(run: Callable[[], Any], wait: Callable[[], None]) -> float:
    """Seconds of one of `RUNS` runs one after the other."""
    wait()
    start = time.perf_counter()
    for _ in range(RUNS):
        run()
    wait()
    return (time.perf_counter() - start) / RUNS


def measure(name: str, batch: int, dtype: str, modes: list[str], target: str, profile: int) -> dict[str, Any]:
    """One row of the table."""
    import torch

    torch.manual_seed(0)
    module, args = networks()[name](batch)
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():  # what is zero at first would hide what comes before it
                parameter.normal_(std=0.02)
        wanted = module(*args).numpy()
    kind = getattr(torch, dtype)
    typed = tuple(arg.to(kind) if arg.is_floating_point() else arg for arg in args)
    module = module.to(kind)
    start = time.perf_counter()
    exported = torch.export.export(module, typed)
    middle = time.perf_counter()
    ours = tw.compile(exported, target=target, cache=False)
    seconds = {"export": round(middle - start, 1), "compile": round(time.perf_counter() - middle, 1)}
    arrays = [arg.numpy() for arg in typed]
    result = ours(*arrays)
    result = result[0] if isinstance(result, list) else result
    row: dict[str, Any] = {
        "network": name,
        "batch": batch,
        "dtype": dtype,
        **seconds,
        "kernels": len(ours.manifest.kernels),
    }
    scale = float(np.abs(wanted).max())
    row["error"] = float(np.abs(np.asarray(result, np.float32) - wanted).max()) / scale
    program: Any = ours._program
    recording = program.segments[0].prepared(arrays)[0].recording
    candidates: dict[str, tuple[Callable[[], Any], Callable[[], None]]] = {
        "ours": (recording.run, program.api.synchronize)
    }
    placed = tuple(arg.cuda() for arg in typed)
    module = module.cuda()
    for mode in modes:
        try:
            replay = torch_replay(module, placed, mode)
        except Exception as error:  # torch cannot capture every module
            print(f"    torch {mode}: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
            continue
        candidates[mode] = (replay, torch.cuda.synchronize)
        row[f"{mode} error"] = float((replay().float().cpu() - torch.from_numpy(wanted)).abs().max()) / scale
    found: dict[str, list[float]] = {mode: [] for mode in candidates}
    for _ in range(ROUNDS):
        for mode, (run, wait) in candidates.items():
            found[mode].append(timed(run, wait))
    for mode, times in found.items():
        row[mode] = {"minimum": min(times) * 1e6, "median": statistics.median(times) * 1e6}
    if profile:
        rows = sorted(program.profile(0, arrays, 1, 3, lambda code: None), key=lambda one: -one.seconds)
        row["profile"] = [(one.kernel, round(one.seconds * 1e6, 1)) for one in rows[:profile]]
    return row


def main() -> None:
    """Measure, print a line a network."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="resnet18,resnet50,mobilenet_v2,vit_b_16,bert")
    parser.add_argument("--batches", default="1")
    parser.add_argument("--dtypes", default="float16")
    parser.add_argument("--modes", default="eager,default")
    parser.add_argument("--target", default="cuda -arch=sm_90")
    parser.add_argument("--profile", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    modes, rows = [mode for mode in given.modes.split(",") if mode], []
    for dtype in given.dtypes.split(","):
        for batch in map(int, given.batches.split(",")):
            for name in given.networks.split(","):
                try:
                    row = measure(name, batch, dtype, modes, given.target, given.profile)
                except Exception as error:  # the others are measured all the same
                    print(f"{name} {batch} {dtype}: {type(error).__name__}: {str(error)[:400]}", flush=True)
                    continue
                rows.append(row)
                measured = [mode for mode in modes if mode in row]
                times = "  ".join(
                    f"{mode} {row[mode]['minimum']:.0f}/{row[mode]['median']:.0f}" for mode in ["ours", *measured]
                )
                best = min((row[mode]["median"] for mode in measured), default=0.0)
                ratio = f"  {best / row['ours']['median']:.2f}x" if best else ""
                errors = "/".join(f"{row[key]:.1e}" for key in ["error", *(f"{mode} error" for mode in measured)])
                print(f"{name:14} {batch:3} {dtype} {row['kernels']} kernels  {times} us{ratio}  error {errors}  "
                      f"compiled in {row['compile']} s", flush=True)  # fmt: skip
                for kernel, microseconds in row.get("profile", ()):
                    print(f"    {microseconds:8.1f} us {kernel}")
                if given.json:
                    given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
