"""The files of a model for WebGPU: ES module with types, kernels with the steps of a run as JSON, weights, and a page.

The steps are those that the runtime in Python records. Memory is four buffers, of weights, arena, inputs and outputs,
with the offset of each tensor known here; `gpu.mjs` binds ranges of them to pipelines once, and encodes one command
buffer a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TargetError, UnsupportedError
from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.noted_steps import NotedSteps, Range, codes_for, noted_steps
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array, round_up
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.web.description import tensors
from tilewright.runtime.web.package import check_name, filled, texts_beside, write_files

#: The parts of the ES module.
_RUNTIME = ("files.mjs", "gpu.mjs")
#: The kinds of memory by their numbers in the steps.
_SPACES = ("weights", "arena", "inputs", "outputs")


def write_gpu_package(folder: Path, name: str, manifest: Manifest, code: bytes, weights: Array) -> list[Path]:
    """Write all files of a model into `folder`, or none; their paths.

    Raises `TargetError` for a model of another target, `UnsupportedError` for what has no fixed list of steps,
    `InputError` and `EnvironmentError_` where files cannot be written.
    """
    check_name(name)
    kind = manifest.target.split()[0].partition(":")[0]
    if kind != "webgpu":
        raise TargetError(f"the model is compiled for {manifest.target}; for the web compile for wasm or webgpu")
    about = description(manifest, code, weights.nbytes)
    runtime = filled(_RUNTIME, {"NAME": name, "VERSION": manifest.tilewright_version})
    texts = texts_beside(name, manifest, f"Kernels and the steps of a run are in {name}.webgpu.json", runtime)
    texts[f"{name}.webgpu.json"] = json.dumps(about, separators=(",", ":"), ensure_ascii=False)
    return write_files(folder, name, texts, {}, weights)


def description(manifest: Manifest, code: bytes, weights: int) -> dict[str, Any]:
    """The contents of the JSON file: tensors, sizes of buffers, text of kernels, steps."""
    if manifest.program is not None:
        raise UnsupportedError(
            "the model needs the virtual machine (branches, loops, values that are no tensors), whose part on the host "
            f"is not written for pages{_of_the_host(manifest)}: compile it for a device, or for WebGPU without these"
        )
    (plan,) = manifest.plans
    if plan.dynamic is not None:
        names = ", ".join(dim.name for dim in plan.dynamic.dims)
        raise UnsupportedError(
            f"sizes are open ({names}), and WebGPU's steps need them: fix them, as by --input-shapes"
        )
    noted = noted_steps(plan, code, weights)
    sources = [one.source for one in codes_for(code)]
    shared = os.path.commonprefix(sources) if len(sources) > 1 else ""  # noqa: RUF071 - texts, no paths
    shared = shared[: shared.rfind("\n") + 1]
    offsets, ends = {}, {}
    for space, specs in (("inputs", plan.inputs), ("outputs", plan.outputs)):
        offsets[space], ends[space] = _offsets(specs, plan.alignment)
    kernels, steps, bounce = _steps(noted, code, offsets, plan.inputs, plan.outputs)
    return {
        "format": 1,
        "version": manifest.tilewright_version,
        "target": manifest.target,
        "inputs": tensors(plan.inputs),
        "outputs": tensors(plan.outputs),
        "sizes": {"weights": weights, "arena": plan.arena_bytes, **ends, "bounce": bounce, "results": ends["outputs"]},
        "offsets": offsets,
        "kernels": kernels,
        "steps": steps,
        "shared": shared,
        "sources": [source.removeprefix(shared) for source in sources],
    }


def _of_the_host(manifest: Manifest) -> str:
    """The operators that the host runs, for a message."""
    names = sorted({packed.operator or packed.host for packed in manifest.packed if packed.segment is None})
    return f"; operators of the host: {', '.join(names)}" if names else ""


def _offsets(specs: Sequence[TensorSpec], alignment: int) -> tuple[list[int], int]:
    """The offset of each tensor in the buffer of all, and the bytes of that."""
    ends = list(accumulate(round_up(max(1, spec.nbytes), alignment) for spec in specs))
    return [0, *ends][: len(specs)], ends[-1] if ends else 0


def _steps(
    noted: NotedSteps,
    code: bytes,
    offsets: dict[str, list[int]],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
) -> tuple[list[Any], list[Any], int]:
    """The kernels, each the number of its text and its name; the steps; the bytes of the largest copy in a buffer.

    A launch is [kernel, grid, ranges, bytes of scalars], a copy [from, to, bytes], a range [buffer, offset, bytes].
    """

    def ranged(one: Range) -> list[int]:
        space, _, number = one.space.partition(" ")
        if not number:
            return [_SPACES.index(space), one.offset, one.nbytes]
        spec = (inputs if space == "input" else outputs)[int(number)]
        return [_SPACES.index(f"{space}s"), offsets[f"{space}s"][int(number)], max(1, spec.nbytes)]

    text_of = {name: number for number, one in enumerate(codes_for(code)) for name in one.kernel_names}
    known: dict[str, int] = {}
    steps: list[Any] = []
    bounce = 0
    for step in noted.steps:
        if isinstance(step, Copy):
            source, target = ranged(step.source), ranged(step.target)
            steps.append([source, target, step.nbytes])
            bounce = max(bounce, step.nbytes if source[0] == target[0] else 0)
            continue
        assert isinstance(step, Launch)
        ranges = [ranged(arg) for arg in step.args if isinstance(arg, Range)]
        scalars = b"".join(np.asarray(arg).tobytes() for arg in step.args if not isinstance(arg, Range))
        number = known.setdefault(step.kernel.name, len(known))
        steps.append([number, list(step.grid), ranges, list(scalars)])
    return [[text_of[name], name] for name in known], steps, bounce
