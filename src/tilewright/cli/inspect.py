"""`tilewright inspect MODEL`: what a model is; with `--stage S` how it or a kernel stands within the compiler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright.cli.codes import multiplies_codes, product_instructions
from tilewright.cli.inspect_kernels import kernel_lines
from tilewright.cli.measured_share import measured_share
from tilewright.cli.options import ModelOptions, model_options, parse_shapes, require_file
from tilewright.cli.outputs import check_writable, write_file
from tilewright.cli.summary import summary_lines
from tilewright.errors import UnsupportedError
from tilewright.runtime.artifact import is_artifact, load_artifact

if TYPE_CHECKING:
    from tilewright.backend.kernels import Task
    from tilewright.relay.ir.module import IRModule
    from tilewright.target import Target


@click.command("inspect")
@click.argument("model")
@click.option(
    "--stage",
    help="relay, graph passes, fused, plan, kernels (of GPUs), choice, te, loop passes, tir, and what the target makes "
    "of that: llvm, asm; c; cuda, ptx, sass; …  [default: summary; of a kernel: choice]",
)
@click.option("--kernel", help="only kernels whose name or source node contains this")
@click.option("--source", is_flag=True, help="with a stage of kernels: beside the code, the lines it was made of")
@click.option("--measure", is_flag=True, help="with --stage choice: run each kernel, and show its share of the peak")
@click.option("--picture", help="draw the schedule to FILE.svg (of one kernel) or FILE.html, and print nothing")
@model_options
def inspect_command(
    model: str,
    stage: str | None,
    kernel: str | None,
    source: bool,
    measure: bool,
    picture: str | None,
    options: ModelOptions,
) -> None:
    """Print what MODEL is, or how it stands after a stage of compilation; of an artifact, the manifest.

    Nothing of it is taken from the cache, with or without --no-cache.
    """
    require_file(model)
    target, shapes = options.target_text, options.shapes
    if measure and stage not in (None, "choice"):
        raise UnsupportedError(
            "--measure goes with --stage choice: it sets the measured share beside the predicted one"
        )
    if picture is not None:
        if stage is not None or measure or source:
            raise UnsupportedError("--picture draws schedules: it goes without --stage, --measure and --source")
        draw_kernels(model, picture, kernel, target, shapes, options.records)
        return
    if is_artifact(model):
        if stage not in (None, "manifest"):
            raise UnsupportedError(f"{model} is a compiled artifact: it has a manifest, and no stage {stage!r}")
        click.echo(json.dumps(load_artifact(model, check=True).to_json(), indent=2, ensure_ascii=False))
        return
    if stage is None and kernel is None and not measure and not source:
        for line in summary_lines(model, parse_shapes(shapes), target):
            click.echo(line)
        return
    usual = "fused" if kernel is None and not measure else "choice"
    for text in stage_texts(model, stage or usual, kernel, target, shapes, measure, source, options.records):
        click.echo(text)


def stage_names(target_name: str = "cpu") -> list[str]:
    """Every stage that can be inspected for a target, in the order in which they come."""
    # only when it runs: `tilewright --help` reads this module, and the compiler is slow to import
    from tilewright.backend import backend_of
    from tilewright.driver.optimize import graph_passes
    from tilewright.target import Target
    from tilewright.tir.transform.pipeline import pipeline_of

    target = Target(target_name)
    backend, graph = backend_of(target), [one.name for one in graph_passes(target)]
    kernels = ["kernels"] if target.has_thread_blocks else []
    first = ["relay", *backend.own_stages(), *graph, "fused", "plan", *kernels, "choice", "te"]
    return [*first, *pipeline_of(target).names, "tir", "oblivious", *backend.code_stages()]


def stage_texts(
    model: str,
    stage: str,
    kernel: str | None,
    target_name: str,
    shapes: str | None,
    measure: bool = False,
    source: bool = False,
    records: str | None = None,
) -> Iterator[str]:
    """The texts to print, one per module or kernel, configured as `records` know best.

    Raises UnsupportedError for an unknown stage or kernel.
    """
    from tilewright.backend import backend_of
    from tilewright.driver.model.build import run_function
    from tilewright.driver.optimize import graph_passes, optimize_stages
    from tilewright.frontend.formats.import_model import import_model
    from tilewright.target import Target

    if stage not in stage_names(target_name):
        raise UnsupportedError(
            f"there is no stage {stage!r}; known: {', '.join(dict.fromkeys(stage_names(target_name)))}"
        )
    target = Target(target_name)
    passes = [one.name for one in graph_passes(target)]
    backend = backend_of(target)
    own, codes = backend.own_stages(), ", ".join(backend.code_stages())
    if source and stage in ("relay", *own, *passes, "fused", "plan", "kernels", "choice", "oblivious"):
        raise UnsupportedError(
            f"--source goes with stages of loops and code: te, a loop pass, tir, {codes}; got {stage}"
        )
    mod = import_model(model, parse_shapes(shapes))
    if stage == "plan":
        yield from _plan(mod, target, kernel, records)
        return
    if stage in own:
        yield from backend.own_texts(mod, stage, kernel, run_function)
        return
    if stage != "relay":
        mod = backend.offload(mod, run_function)
    if stage in ("relay", *passes):
        yield str(next(after for name, after in optimize_stages(mod, target) if name == stage))
    elif stage == "fused":
        yield str(_optimized(mod, target, records))
    elif stage == "kernels":
        yield from kernel_lines(_optimized(mod, target, records), target, kernel)
    else:
        yield from kernel_texts(_optimized(mod, target, records), stage, kernel, target, measure, source)


def _plan(mod: IRModule, target: Target, kernel: str | None, records: str | None) -> Iterator[str]:
    """The memory plan of a straight graph; of a program its segments by device, and the copies between devices."""
    from tilewright.driver.model.build import optimized_graphs
    from tilewright.driver.vm.copies import program_lines
    from tilewright.records.tophub import open_records

    graphs = optimized_graphs(mod, target, records=open_records(records) if records else None)
    if graphs.runs_bytecode:
        yield from program_lines(graphs)
    if not graphs.runs_bytecode or kernel is not None:
        for _, segment in graphs.segments:
            yield from plan_lines(segment, kernel, target)


def _optimized(mod: IRModule, target: Target, records: str | None) -> IRModule:
    """The module after all graph passes, its kernels configured as a file of records knows best."""
    from tilewright.driver.optimize import optimize
    from tilewright.records.tophub import open_records

    return optimize(mod, target, open_records(records) if records else None)


def plan_lines(fused: IRModule, kernel: str | None, target: Target) -> Iterator[str]:
    """The memory plan: each kernel call with the positions of its arguments."""
    from tilewright.backend import backend_of
    from tilewright.driver.build import extract_tasks, memory_plan

    plan = memory_plan(fused, backend_of(target))
    _, names = extract_tasks(plan.order)
    steps = dict(enumerate(plan.order))
    if kernel is not None:
        steps = {step: call for step, call in steps.items() if kernel in names[call] or kernel in call.span}
    if kernel is not None and not steps:
        raise _no_kernel(kernel, names.values())
    yield f"arena: {plan.arena_bytes} bytes, weights: {sum(c.data.nbytes for c in plan.constants)} bytes"
    for step, call in steps.items():
        positions = ", ".join(f"{s.where.value}[{s.position}]" for s in plan.arguments(call))
        yield f"{step:4}  {names[call]}({positions})  # {call.span}"


def kernel_texts(
    fused: IRModule, stage: str, kernel: str | None, target: Target, measure: bool = False, source: bool = False
) -> Iterator[str]:
    """One stage of each chosen kernel; with `measure`, how fast each is, with `source` the lines it was made of."""
    from tilewright.backend import backend_of

    backend = backend_of(target)
    for task, sources in chosen_kernels(fused, kernel, target):
        yield f"# {task.name}: {'; '.join(sources)}"
        if not backend.lowers(task.function):
            yield f"  no loops: see {', '.join(backend.own_stages())}"
            continue
        yield kernel_text(task, stage, target, source)
        if measure:
            yield f"  {measured_share(task, target)}"


def chosen_kernels(fused: IRModule, kernel: str | None, target: Target) -> list[tuple[Task, list[str]]]:
    """The kernels whose name or source node contains `kernel`, each with its source nodes; all of them for None."""
    from tilewright.backend import backend_of
    from tilewright.driver.build import extract_tasks, memory_plan

    tasks, names = extract_tasks(memory_plan(fused, backend_of(target)).order)
    sources: dict[str, list[str]] = {}
    for call, name in names.items():
        sources.setdefault(name, []).append(call.span)
    chosen = [t for t in tasks if kernel is None or kernel in t.name or any(kernel in s for s in sources[t.name])]
    if kernel is not None and not chosen:
        raise _no_kernel(kernel, sources)
    return [(task, sources[task.name]) for task in chosen]


def draw_kernels(
    model: str, path: str, kernel: str | None, target_name: str, shapes: str | None, records: str | None = None
) -> None:
    """Draw the schedules of the chosen kernels to `path`: an HTML page of all, or one as SVG.

    Raises UnsupportedError for another kind of file, an artifact, no such kernel, or several for one SVG.
    """
    from tilewright import te
    from tilewright.driver.lower import kernel_picture
    from tilewright.frontend.formats.import_model import import_model
    from tilewright.target import Target

    kind = Path(path).suffix.lower()
    if kind not in (".svg", ".html"):
        raise UnsupportedError(f"--picture writes .svg or .html; got {path}")
    if is_artifact(model):
        raise UnsupportedError(
            f"{model} is a compiled artifact and holds no schedules: inspect the model it was made of"
        )
    check_writable(path, model)
    target = Target(target_name)
    chosen = chosen_kernels(_optimized(import_model(model, parse_shapes(shapes)), target, records), kernel, target)
    if kind == ".svg" and len(chosen) != 1:
        names = ", ".join(task.name for task, _ in chosen) or "none"
        raise UnsupportedError(f"an .svg holds one kernel; choose it by --kernel, or write .html; chosen: {names}")
    drawn = {f"{task.name}: {'; '.join(of)}": kernel_picture(task.function, task.name, target) for task, of in chosen}
    text = next(iter(drawn.values())) if kind == ".svg" else te.picture_page(drawn, Path(model).name)
    write_file(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def kernel_text(task: Task, stage: str, target: Target, source: bool = False) -> str:
    """One kernel at one stage.

    `choice` is what its schedule chose and why, `te` its loop nest, a pass what it returns, `tir` the last, `oblivious`
    what an observer of its branches and addresses learns of the data.
    """
    from tilewright.backend import backend_of
    from tilewright.backend.lower import compute_positions
    from tilewright.driver.lower import lower_function, lowering_stages, schedule_choice, search_space
    from tilewright.tir.oblivious import data_dependences
    from tilewright.tir.printer import to_text

    if stage == "choice":
        lines = backend_of(target).explain(schedule_choice(task.function, target), search_space(task.function, target))
        if "asm" in backend_of(target).code_stages() and multiplies_codes(task.function):
            lines = [*lines, *product_instructions(kernel_text(task, "asm", target))]
        return "\n".join(f"  {line}" for line in lines)
    if stage == "oblivious":
        *_, (_, func) = lowering_stages(task.function, task.name, target)
        return "\n".join([f"  {found}" for found in data_dependences(func)] or ["  oblivious"])
    code = backend_of(target).code_stages()
    if stage == "tir" or stage in code:
        func = lower_function(task.function, task.name, target)
        return to_text(func, source) if stage == "tir" else backend_of(target).code_text([func], stage, source)
    wanted = "schedule_to_tir" if stage == "te" else stage
    stages = lowering_stages(task.function, task.name, target)
    text = next(to_text(func, source) for name, func in stages if name == wanted)
    if stage != "te":
        return text
    positions = compute_positions(task.function)
    return "\n".join([*(f"# {name} is computed at {position}" for name, position in positions.items()), text])


def _no_kernel(kernel: str, known: object) -> UnsupportedError:
    names = ", ".join(dict.fromkeys(known))  # type: ignore[call-overload]
    return UnsupportedError(f"no kernel or source node is called {kernel!r}; the kernels are: {names or 'none'}")
