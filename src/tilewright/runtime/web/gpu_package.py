"""The files of a model for WebGPU: ES module with types, kernels with the steps of a run as JSON, weights, and a page.

The steps are those that the runtime in Python records. Memory is four buffers, of weights, arena, inputs and outputs,
with the offset of each tensor known here; `gpu.mjs` binds ranges of them to pipelines once, and encodes one command
buffer a run. Where sizes are open, the plan and the functions are written as they are, and `gpu_sizes.mjs` finds the
steps for the sizes of a run. A model with branches or operators of the host is a program around several such plans,
whose values stay on the GPU until the host reads them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.errors import TargetError, UnsupportedError
from tilewright.runtime.gpu.api import Copy, Launch
from tilewright.runtime.gpu.code import DeviceCode
from tilewright.runtime.gpu.noted_steps import NotedSteps, Range, codes_for, noted_steps
from tilewright.runtime.gpu.unread import unread_results
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.memory import Array, round_up
from tilewright.runtime.plan import ExecutionPlan
from tilewright.runtime.shape_program import expression_text, is_condition
from tilewright.runtime.signature import TensorSpec
from tilewright.runtime.web.description import plain_json, program_entry, require_operators, tensors
from tilewright.runtime.web.host import HOST_FILES
from tilewright.runtime.web.package import check_name, filled, texts_beside, write_files
from tilewright.support.dtype import DType

#: The parts of the ES module.
_RUNTIME = ("files.mjs", "gpu_sizes.mjs", "gpu.mjs")
_WITH_PROGRAMS = ("files.mjs", *HOST_FILES, "machine.mjs", *_RUNTIME[1:])
#: The kinds of memory by their numbers in the steps.
_SPACES = ("weights", "arena", "inputs", "outputs")


def write_gpu_package(folder: Path, name: str, manifest: Manifest, code: bytes, weights: Array) -> list[Path]:
    """Write all files of a model into `folder`, or none; their paths.

    Raises `TargetError` for a model of another target, `UnsupportedError` for parts that pages cannot run, `InputError`
    and `EnvironmentError_` where files cannot be written.
    """
    check_name(name)
    kind = manifest.target.split()[0].partition(":")[0]
    if kind != "webgpu":
        raise TargetError(f"the model is compiled for {manifest.target}; for the web compile for wasm or webgpu")
    about = description(manifest, code, weights.nbytes)
    parts = _RUNTIME if manifest.is_native else _WITH_PROGRAMS
    runtime = filled(parts, {"NAME": name, "VERSION": manifest.tilewright_version})
    texts = texts_beside(name, manifest, f"Kernels and the steps of a run are in {name}.webgpu.json", runtime)
    texts[f"{name}.webgpu.json"] = plain_json(about)
    return write_files(folder, name, texts, {}, weights)


def description(manifest: Manifest, code: bytes, weights: int) -> dict[str, Any]:
    """The contents of the JSON file: tensors, sizes of buffers, text of kernels, steps, and a program around them."""
    require_operators(manifest)
    if any(part.device != manifest.device for part in manifest.parts):
        raise UnsupportedError("parts of the model were compiled for this machine's processor: compile it anew")
    codes = codes_for(code)
    kernels: dict[str, int] = {}
    pieces = [_piece(plan, code, weights, codes, kernels) for plan in manifest.plans]
    text_of = {name: number for number, one in enumerate(codes) for name in one.kernel_names}
    sources = [one.source for one in codes]
    shared = os.path.commonprefix(sources) if len(sources) > 1 else ""  # noqa: RUF071 - texts, no paths
    shared = shared[: shared.rfind("\n") + 1]
    starts = {
        arg.offset for plan in manifest.plans for call in plan.kernels for arg in call.args if arg.space == "weights"
    }
    starts |= {one.offset for one in manifest.constants if one.value is None}
    return {
        "format": 3,
        "version": manifest.tilewright_version,
        "target": manifest.target,
        "inputs": tensors(manifest.inputs),
        "outputs": tensors(manifest.outputs),
        "weights": [weights, sorted(starts)],
        "pieces": pieces,
        **({} if manifest.is_native else {"program": program_entry(manifest)}),
        "kernels": [[text_of[name], name] for name in kernels],
        "shared": shared,
        "sources": [source.removeprefix(shared) for source in sources],
    }


def _piece(
    plan: ExecutionPlan, code: bytes, weights: int, codes: Sequence[DeviceCode], kernels: dict[str, int]
) -> dict[str, Any]:
    """The entry of what runs in one command buffer; its kernels get numbers."""
    ends = {"inputs": tensors(plan.inputs), "outputs": tensors(plan.outputs)}
    if plan.dynamic is not None:
        return {**ends, "open": _open(plan, codes, kernels)}
    return {**ends, **_fixed(plan, noted_steps(plan, code, weights), kernels)}


def _fixed(plan: ExecutionPlan, noted: NotedSteps, kernels: dict[str, int]) -> dict[str, Any]:
    """Sizes of buffers, offsets of tensors and the steps of a plan of fixed sizes."""
    offsets, ends = {}, {}
    for space, specs in (("inputs", plan.inputs), ("outputs", plan.outputs)):
        offsets[space], ends[space] = _offsets(specs, plan.alignment)
    steps, bounce = _steps(noted, offsets, plan.inputs, plan.outputs, kernels)
    sizes = {"arena": plan.arena_bytes, **ends, "bounce": bounce, "results": ends["outputs"]}
    return {"sizes": sizes, "offsets": offsets, "steps": steps}


def _open(plan: ExecutionPlan, codes: Sequence[DeviceCode], kernels: dict[str, int]) -> dict[str, Any]:
    """The plan of symbolic sizes and what its functions do, as `gpu_sizes.mjs` reads them."""
    sizes = plan.dynamic
    assert sizes is not None
    spaces = {space.removesuffix("s") if space != "weights" else space: i for i, space in enumerate(_SPACES)}
    called = {call.name for call in plan.kernels}
    functions, infos = {}, {info.name: info for one in codes for info in one.functions if info.name in called}
    for info in infos.values():
        params = [[p.name, DType(p.dtype).itemsize, None if p.is_scalar else list(p.shape or ())] for p in info.params]
        made = [[one["name"], DType(one["dtype"]).itemsize, one["elements"]] for one in info.temporaries]
        functions[info.name] = {"params": params, "temporaries": made, "steps": list(info.steps)}
    for info in infos.values():
        for step in info.launches:
            kernels.setdefault(step["kernel"], len(kernels))
    return {
        "alignment": plan.alignment,
        "dims": [[dim.name, dim.input, dim.axis] for dim in sizes.dims],
        "checks": [[check.input, check.axis, check.value] for check in sizes.checks],
        "equal": [[one.a, one.b, f"{one.where} needs {_text(one.a, one.b)}"] for one in sizes.equal],
        "buffers": [[one.bytes, one.first, one.last] for one in sizes.buffers],
        "values": sizes.values,
        "workspaces": sizes.workspace_bytes,
        "shapes": sizes.output_shapes,
        "functions": functions,
        "calls": [
            [call.name, [[spaces.get(arg.space, -1), arg.offset, *arg.slots] for arg in call.args], sorted(names)]
            for call, names in zip(plan.kernels, unread_results(plan, infos), strict=True)
        ],
    }


def _text(a: Any, b: Any) -> str:
    """A condition as people write it: of two sizes, that they are equal."""
    return expression_text(a) if is_condition(a) else f"{expression_text(a)} = {expression_text(b)}"


def _offsets(specs: Sequence[TensorSpec], alignment: int) -> tuple[list[int], int]:
    """The offset of each tensor in the buffer of all, and the bytes of that."""
    ends = list(accumulate(round_up(max(1, spec.nbytes), alignment) for spec in specs))
    return [0, *ends][: len(specs)], ends[-1] if ends else 0


def _steps(
    noted: NotedSteps,
    offsets: dict[str, list[int]],
    inputs: Sequence[TensorSpec],
    outputs: Sequence[TensorSpec],
    known: dict[str, int],
) -> tuple[list[Any], int]:
    """The steps; the bytes of the largest copy in a buffer. `known` are the numbers of kernels, which get new ones.

    A launch is [kernel, grid, ranges, bytes of scalars], a copy [from, to, bytes], a range [buffer, offset, bytes].
    """

    def ranged(one: Range) -> list[int]:
        space, _, number = one.space.partition(" ")
        if not number:
            return [_SPACES.index(space), one.offset, one.nbytes]
        spec = (inputs if space == "input" else outputs)[int(number)]
        return [_SPACES.index(f"{space}s"), offsets[f"{space}s"][int(number)], max(1, spec.nbytes)]

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
    return steps, bounce
