"""`tilewright inspect MODEL --stage S`: print a model, or one of its kernels, at any stage of the compiler."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tilewright.cli.options import parse_shapes
from tilewright.errors import UnsupportedError

#: Stages of the whole model; a graph pass may be named too. The others are stages of one kernel.
GRAPH_STAGES = ("relay", "fused", "plan")
KERNEL_STAGES = ("te", "tir", "llvm", "asm")


@click.command("inspect")
@click.argument("model")
@click.option("--stage", default="fused", show_default=True, help="relay, a graph pass, fused, plan, te, tir, a tir pass, llvm or asm")
@click.option("--kernel", help="only kernels whose name or source node contains this")
@click.option("--target", default="cpu", show_default=True, help="what to compile for")
@click.option("--input-shapes", "shapes", help='fixes dynamic dimensions, e.g. "x:[1,3,224,224]"')
def inspect_command(model: str, stage: str, kernel: str | None, target: str, shapes: str | None) -> None:
    """Print MODEL (.onnx) as it stands after a stage of compilation, under its own node names."""
    for text in stage_texts(model, stage, kernel, target, shapes):
        click.echo(text)


def stage_texts(model: str, stage: str, kernel: str | None, target_name: str, shapes: str | None) -> Iterator[str]:
    """The texts to print, one per module or kernel."""
    from tilewright.compile import GRAPH_PASSES, import_model, optimize, optimize_stages
    from tilewright.target import Target

    target = Target(target_name)
    mod = import_model(model, parse_shapes(shapes))
    graph_passes = [name for name, _ in GRAPH_PASSES]
    if stage == "relay" or stage in graph_passes:
        yield str(dict(optimize_stages(mod, target))[stage])
        return
    fused = optimize(mod, target)
    if stage == "fused":
        yield str(fused)
    elif stage == "plan":
        yield from plan_lines(fused)
    else:
        yield from kernel_texts(fused, stage, kernel, target)


def plan_lines(fused) -> Iterator[str]:  # type: ignore[no-untyped-def]
    """The memory plan: each kernel call with the places of its arguments."""
    from tilewright.relay.build import extract_tasks
    from tilewright.relay.transform.plan_memory import plan_memory

    plan = plan_memory(fused)
    _, names = extract_tasks(plan.order)
    yield f"arena: {plan.arena_bytes} bytes, weights: {sum(c.data.nbytes for c in plan.constants)} bytes"
    for step, call in enumerate(plan.order):
        places = ", ".join(f"{s.where.value}[{s.position}]" for s in plan.arguments(call))
        yield f"{step:4}  {names[call]}({places})  # {call.span}"


def kernel_texts(fused, stage: str, kernel: str | None, target) -> Iterator[str]:  # type: ignore[no-untyped-def]
    """One stage of each chosen kernel."""
    from tilewright.codegen.llvm import assembly, emit
    from tilewright.relay.build import extract_tasks
    from tilewright.relay.lower import lower_function, lowering_stages
    from tilewright.relay.transform.plan_memory import plan_memory

    plan = plan_memory(fused)
    tasks, names = extract_tasks(plan.order)
    sources: dict[str, list[str]] = {}
    for call, name in names.items():
        sources.setdefault(name, []).append(call.span)
    chosen = [t for t in tasks if kernel is None or kernel in t.name or any(kernel in s for s in sources[t.name])]
    if not chosen:
        raise UnsupportedError(f"no kernel or source node is called {kernel!r}; `--stage plan` lists them")
    for task in chosen:
        yield f"# {task.name}: {'; '.join(sources[task.name])}"
        if stage in ("llvm", "asm"):
            text = emit([lower_function(task.function, task.name, target)], target)
            yield assembly(text, target) if stage == "asm" else text
            continue
        stages = {("te" if s == "schedule_to_tir" else s): f for s, f in lowering_stages(task.function, task.name, target)}
        stages["tir"] = list(stages.values())[-1]
        if stage not in stages:
            known = ", ".join(dict.fromkeys([*GRAPH_STAGES, *stages, *KERNEL_STAGES]))
            raise UnsupportedError(f"there is no stage {stage!r}; known: {known}, and the graph passes")
        yield str(stages[stage])
