"""The process that graphs with symbolic sizes run in: `python -m bench.fuzz.symbolic_worker` reads a seed a line.

A graph of `operators.draw_case` gets symbolic dimensions, is compiled once and run at `SIZES` sizes, 0 and 1 among
them, beside onnxruntime and ONNX's evaluator; where those refuse or differ, beside the same graph with fixed sizes.
"""

from __future__ import annotations

import json
import random
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bench.fuzz.case import Case
from bench.fuzz.judge import described, differences, stands, tainted
from bench.fuzz.operators import draw_case
from bench.fuzz.references import ReferenceError_, evaluate_nodes, run_onnxruntime
from bench.fuzz.values import draw_array
from bench.fuzz.worker import INVALID, RAW, RIGHT, WRONG, Outcome
from tilewright.driver.model.build import build_model
from tilewright.errors import UserError
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.runtime.model import Model
from tilewright.target import Target

#: Sizes that each graph is run at.
SIZES = 20
#: It runs at sizes for which all others refuse it, the same graph with those sizes fixed among them.
MEANINGLESS = "run without meaning"
#: Refused at sizes that it has results for.
REFUSED_SIZES = "refused at these sizes"
#: Refused when it is compiled with symbolic sizes.
NOT_COMPILED = "not compiled"
#: All refuse these sizes.
NO_MEANING = "refused by all"
#: As with fixed sizes, which the other fuzzer compares with the references.
AS_FIXED = "as with fixed sizes"
#: From the worst to the best.
OUTCOMES = (RAW, WRONG, MEANINGLESS, REFUSED_SIZES, AS_FIXED, NO_MEANING, NOT_COMPILED, RIGHT)

Dims = tuple[int | str, ...]
Results = dict[str, Any]


@dataclass(frozen=True)
class SymbolicCase:
    """A case whose inputs have symbolic dimensions, and the values those are given by turns."""

    case: Case
    dims: Mapping[str, Dims]
    sizes: tuple[Mapping[str, int], ...]

    def feeds(self, sizes: Mapping[str, int]) -> dict[str, Any]:
        """The values of the inputs at `sizes`: the numbers of the case, over and over."""
        rng = random.Random(f"{self.case.seed} {dict(sizes)}")
        fed = dict(self.case.feeds)
        for name, dims in self.dims.items():
            shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in dims)
            given = fed[name].reshape(-1)
            element = next(v for v in self.case.model.graph.input if v.name == name).type.tensor_type.elem_type
            count = int(np.prod(shape))
            source = given if given.size or not count else draw_array(rng, element, (count,)).reshape(-1)
            fed[name] = source[np.arange(count) % max(source.size, 1)].reshape(shape)
        return fed


def draw_symbolic(seed: int, operators: tuple[str, ...] = ()) -> SymbolicCase:
    """The case of a seed with symbolic dimensions; without any where no input has a dimension."""
    case, rng = draw_case(seed, operators), random.Random(f"symbolic {seed}")
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    _leave_out_unread(model.graph)
    shared = rng.random() < 0.7
    dims: dict[str, Dims] = {}
    original: dict[str, int] = {}
    for value in model.graph.input:
        array = case.feeds.get(value.name)
        if not isinstance(array, np.ndarray) or array.dtype == object or not array.ndim:
            continue
        vector = array.dtype.kind in "iu" and array.ndim == 1  # it may be a shape, or axes
        chosen: list[int | str] = []
        for axis, size in enumerate(array.shape):
            open_ = rng.random() < (0.15 if size == 1 or vector else 0.6)
            name = f"n{size}" if shared else f"{value.name}_{axis}"
            chosen.append(name if open_ else size)
            dim = value.type.tensor_type.shape.dim[axis]
            dim.Clear()
            if open_:
                original[name] = size
                dim.dim_param = name
            else:
                dim.dim_value = size
        dims[value.name] = tuple(chosen)
    settings = replace(case.settings, fixed=False)
    return SymbolicCase(replace(case, model=model, settings=settings), dims, _sizes(rng, original))


def _leave_out_unread(graph: onnx.GraphProto) -> None:
    """Drop the nodes that no output needs: whether those have a meaning decides nothing about the results."""
    needed = {output.name for output in graph.output}
    for node in list(graph.node)[::-1]:
        if needed.isdisjoint(node.output):
            graph.node.remove(node)
        else:
            needed.update(_read_by(node))


def _read_by(node: onnx.NodeProto) -> set[str]:
    """The names that a node and the graphs within it read."""
    graphs = [one for attribute in node.attribute for one in (attribute.g, *attribute.graphs)]
    return {*node.input}.union(*(_read_by(inner) | {o.name for o in g.output} for g in graphs for inner in g.node))


def _sizes(rng: random.Random, original: Mapping[str, int]) -> tuple[Mapping[str, int], ...]:
    """`SIZES` values of the dimensions: as drawn, all 0, all 1, each 0 and 1 beside the others, then random ones."""
    found = [dict(original), dict.fromkeys(original, 0), dict.fromkeys(original, 1)]
    singles = [{**original, name: size} for name in original for size in (0, 1)]
    found += rng.sample(singles, min(len(singles), SIZES // 2))
    for _ in range(100 if original else 0):
        kept = rng.choice([0.0, 0.5, 0.8])
        drawn = {name: rng.choice([0, 1, 2, 3, rng.randint(2, 12), rng.randint(2, 24)]) for name in original}
        found.append({name: original[name] if rng.random() < kept else size for name, size in drawn.items()})
    distinct = list({tuple(sizes.items()): sizes for sizes in found}.values())
    return tuple(distinct[:SIZES]) if original else ()


def compiled(case: Case, shapes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """Our executable of a case, with the sizes of `shapes` where given."""
    with PassContext(opt_level=case.settings.opt_level):
        module, _ = from_onnx(case.model, shapes)
        return build_model(module, Target("cpu"), case.settings.threads, case.settings.executor, jobs=1)


def run_ours(model: Model, case: Case, feeds: Mapping[str, Any]) -> Results:
    """Our outputs by name."""
    return dict(zip([output.name for output in case.model.graph.output], model.run(dict(feeds))))


def _fixed(case: Case, feeds: Mapping[str, Any]) -> Results | None:
    """Our outputs where the sizes of `feeds` are fixed when compiling; None where they are refused."""
    try:
        shapes = {name: value.shape for name, value in feeds.items() if isinstance(value, np.ndarray)}
        return run_ours(compiled(case, shapes), case, feeds)
    except UserError:
        return None


def _by_onnxruntime(case: Case, feeds: Mapping[str, Any]) -> Results | None:
    try:
        found = run_onnxruntime(case.model, feeds)
    except ReferenceError_:
        return None
    return dict(zip([output.name for output in case.model.graph.output], found))


def _by_evaluator(case: Case, feeds: Mapping[str, Any]) -> Results | None:
    try:
        return evaluate_nodes(case.model, feeds)
    except ReferenceError_:
        return None


def _fault(case: Case, feeds: Mapping[str, Any], ours: Results, theirs: Results) -> str:
    """The defect of the first wrong output of ours, rounding allowed for; empty where nothing is."""
    silent = tainted(case.model, case.undefined)
    for name in (output.name for output in case.model.graph.output if output.name not in silent):
        found = differences(ours[name], theirs[name])
        if isinstance(found, str) or found.any():
            fault = found if isinstance(found, str) else ""
            fault = fault or stands(case.model, feeds, case.seed, name, ours[name], theirs[name])
            if fault:
                return f"{name}: {fault}"
    return ""


def _same(ours: Results, fixed: Results) -> str:
    """The first difference between two results of ours; empty where there is none."""
    for name, value in fixed.items():
        found = differences(ours[name], value)
        if isinstance(found, str) or found.any():
            return f"{name} beside fixed sizes: {described(ours[name], value, found)}"
    return ""


def judge_sizes(found: SymbolicCase, model: Model, sizes: Mapping[str, int]) -> tuple[str, str]:
    """The outcome of a run at `sizes`: one of `OUTCOMES`, with a message."""
    case, feeds = found.case, found.feeds(sizes)
    _say("references", sizes)
    references: list[Callable[[], Results | None]] = [
        lambda: _by_onnxruntime(case, feeds),
        lambda: _by_evaluator(case, feeds),
    ]
    theirs = next((made for made in (reference() for reference in references) if made is not None), None)
    _say("ours", sizes)
    try:
        ours = run_ours(model, case, feeds)
    except UserError as error:
        if theirs is None and _fixed(case, feeds) is None:
            return NO_MEANING, ""
        return REFUSED_SIZES, f"{type(error).__name__}: {error}"
    except Exception as error:  # that is what is being looked for
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "tilewright" in f.filename]
        position = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        return RAW, f"{type(error).__name__}: {error}{position}"
    if theirs is not None and not _fault(case, feeds, ours, theirs):
        return RIGHT, ""
    fixed = _fixed(case, feeds)
    if fixed is None:
        if theirs is None:
            return MEANINGLESS, "fixed sizes and the references are refused"
        return WRONG, f"beside a reference: {_fault(case, feeds, ours, theirs)}; fixed sizes are refused"
    unlike = _same(ours, fixed)
    if unlike and theirs is not None and not _fault(case, feeds, fixed, theirs):
        return WRONG, unlike
    if unlike and theirs is None:
        return WRONG, unlike
    return AS_FIXED, ""


def judge(found: SymbolicCase) -> Outcome:
    """Compile a case once and run it at all its sizes; the worst outcome, and how many sizes ended how."""
    case, operators = found.case, tuple(found.case.operators())
    _say("ours", {})
    try:
        model = compiled(case)
    except UserError as error:
        return Outcome(case.seed, NOT_COMPILED, f"{type(error).__name__}: {error}", operators)
    except Exception as error:  # that is what is being looked for
        return Outcome(case.seed, RAW, f"compiling: {type(error).__name__}: {error}", operators)
    counts: Counter[str] = Counter()
    messages: dict[str, str] = {}
    for sizes in found.sizes:
        outcome, message = judge_sizes(found, model, sizes)
        counts[outcome] += 1
        messages.setdefault(outcome, f"at {dict(sizes)}: {message}")
    worst = next(outcome for outcome in OUTCOMES if counts[outcome])
    return Outcome(case.seed, worst, messages[worst] if worst != RIGHT else "", operators, counts=dict(counts))


def _say(stage: str, sizes: Mapping[str, int]) -> None:
    print(json.dumps({"stage": stage, "at": dict(sizes)}), flush=True)


def answer(seed: int) -> Outcome:
    """The outcome of a seed."""
    found = draw_symbolic(seed)
    if not found.case.model.graph.node or not found.case.model.graph.output or not found.sizes:
        return Outcome(seed, INVALID, "no symbolic dimension")
    return judge(found)


def main() -> None:
    """Answer requests until there are none."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        _say("drawing", {})
        try:
            found = answer(int(line))
        except Exception:  # a fault of the fuzzer itself, which must not look like one of ours
            found = Outcome(int(line), INVALID, traceback.format_exc(limit=-2))
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
