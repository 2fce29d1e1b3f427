"""The process that cases run in: `python -m bench.fuzz.worker` reads a request a line and answers with a line of JSON.

A request is a seed, or the path of a saved case. Before each part that may end the process a line says which begins.
Seeds are compiled for the target that is the first argument; for another than `cpu`, our own results on the processor
are one reference more.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import traceback
import warnings
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto as T

from bench.fuzz.case import Case, Settings
from bench.fuzz.judge import RUNS, described, differences, differs, stands, tainted, verdict
from bench.fuzz.operators import draw_case
from bench.fuzz.references import ReferenceError_, evaluate_nodes, run_onnxruntime
from bench.fuzz.settle import Settled, settle
from tilewright.driver.model.build import build_model
from tilewright.errors import UserError
from tilewright.frontend.onnx import from_onnx
from tilewright.relay.transform.manager.pass_manager import PassContext
from tilewright.target import Target

RIGHT, WRONG, CRASH, RAW, REFUSED = "right", "wrong", "crash", "raw exception", "refused"
TIMEOUT, NO_REFERENCE, DISAGREE, INVALID = "timeout", "reference failed", "references disagree", "not drawn"
#: Refused as long as sizes are open, and right to run with those that it is fed.
OPEN = "refused with symbolic dimensions"
#: Refused as long as the inputs are, and right to run with them as constants: a run decides a size or a rank.
UNSETTLED = "refused with sizes of a run"
OUTCOMES = (RIGHT, WRONG, CRASH, RAW, REFUSED, OPEN, UNSETTLED, TIMEOUT, DISAGREE, NO_REFERENCE, INVALID)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case, in one of the words above, with a message; `references` are those that ran the model."""

    seed: int
    outcome: str
    message: str = ""
    operators: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    #: Where the references differ though ours agrees with one: the first node that does, and its type.
    disagreement: str = ""
    #: Of a graph that is run at several sizes: how many of them ended how.
    counts: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(entry: dict[str, Any]) -> Outcome:
        """The inverse of `asdict`, from JSON."""
        return Outcome(**{key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()})


def run_ours(case: Case, plain: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
    """Our outputs by name, of two runs of one executable; a `plain` one is compiled as anybody would."""
    settings = Settings(target=case.settings.target) if plain else case.settings
    shapes = {name: value.shape for name, value in case.feeds.items()} if settings.fixed else None
    with PassContext(opt_level=settings.opt_level):
        module, _ = from_onnx(case.model, shapes)
        model = build_model(module, Target(settings.target), settings.threads, settings.executor, jobs=1)
    names = [output.name for output in case.model.graph.output]
    first, second = (dict(zip(names, model.run(dict(case.feeds)))) for _ in range(2))
    return first, second


def judge(case: Case) -> Outcome:
    """Run a case by the references and by us, and compare."""
    _say("references")
    theirs = _references(case)
    _say("ours")
    kind, message, ours = _attempt(case)
    operators = tuple(case.operators())
    if kind == REFUSED and _is_open(case) and not case.settings.fixed:
        kind = OPEN if not _attempt(replace(case, settings=replace(case.settings, fixed=True)))[0] else REFUSED
    if kind == REFUSED and not _attempt(_of_constants(case))[0]:
        kind = UNSETTLED
    if kind:
        return Outcome(case.seed, kind, message, operators, tuple(theirs))
    silent = tainted(case.model, case.undefined)
    names = [output.name for output in case.model.graph.output if output.name not in silent]
    faults = {engine: _faults(case, names, ours, values) for engine, values in theirs.items()}
    if faults and not any(faults.values()):
        return Outcome(case.seed, RIGHT, "", operators, tuple(theirs))
    return _settled(case, names, ours, faults)


def _settled(case: Case, names: list[str], ours: dict[str, Any], faults: dict[str, str]) -> Outcome:
    """The outcome of a case that differs from a reference: what its nodes tell, each by itself."""
    head = (tuple(case.operators()), tuple(faults))
    found = settle(
        case, lambda model, feeds: list(run_ours(case.with_model(model, dict(feeds)), plain=True)[0].values())
    )
    cause = "; ".join(dict.fromkeys(found.disagreements))
    if found.wrong:
        return Outcome(case.seed, WRONG, found.wrong, *head, cause)
    if any(not fault for fault in faults.values()):
        return Outcome(case.seed, RIGHT, "", *head, cause or "rounding, or nodes that do not run alone")
    message = "; ".join(f"beside {engine} {fault}" for engine, fault in faults.items())
    if not found.whole:
        kind = NO_REFERENCE if not faults else DISAGREE if len(faults) > 1 and cause else WRONG
        return Outcome(case.seed, kind, message, *head, cause)
    left = _faults_of_settled(case, names, ours, found)
    if left:
        return Outcome(case.seed, WRONG, f"together: {left}", *head, cause)
    return Outcome(case.seed, RIGHT, "", *head, cause)


def _faults_of_settled(case: Case, names: list[str], ours: dict[str, Any], found: Settled) -> str:
    """The defect of the first wrong output of ours, beside the values that its nodes were settled on."""
    suspects = [name for name in names if name in found.values and differs(ours[name], found.values[name])]
    for count in (RUNS, 5 * RUNS):  # more of them where a few do not explain it
        runs = found.moved_runs(case.seed, count) if suspects else []
        faults = {name: _moved_fault(runs, name, ours[name], found.values[name]) for name in suspects}
        suspects = [name for name, fault in faults.items() if fault]
    return next((f"{name}: {faults[name]}" for name in suspects), "")


def _moved_fault(runs: list[dict[str, Any]], name: str, ours: Any, settled: Any) -> str:
    """The defect of an output beside the value that was settled on; nothing where it moves beyond evaluation."""
    moved = [run[name] for run in runs if name in run]
    return verdict(moved, ours, settled) if len(moved) == len(runs) else ""


def _is_open(case: Case) -> bool:
    """True if an input of the model has a symbolic dimension."""
    tensors = [value.type.tensor_type for value in case.model.graph.input]
    return any(not dim.HasField("dim_value") for tensor in tensors for dim in tensor.shape.dim)


def _of_constants(case: Case) -> Case:
    """The case with what tensors of numbers it is fed as constants of the model."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    numbers = {
        name: value for name, value in case.feeds.items() if isinstance(value, np.ndarray) and value.dtype != object
    }
    inputs = [value for value in model.graph.input if value.name not in numbers]
    elements = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    for name, value in numbers.items():
        model.graph.initializer.append(_constant(name, elements[name], value))
    feeds = {name: value for name, value in case.feeds.items() if name not in numbers}
    return replace(case.with_model(model, feeds), settings=replace(case.settings, fixed=True))


def _constant(name: str, element: int, value: np.ndarray) -> onnx.TensorProto:
    """A constant of a model, of any type but text; those of less than a byte share one."""
    codes = value.tobytes()
    parts = {T.INT4: 2, T.UINT4: 2, T.FLOAT4E2M1: 2, T.INT2: 4, T.UINT2: 4}.get(element, 1)
    if parts > 1:
        bits = 8 // parts
        padded = [code & ((1 << bits) - 1) for code in codes] + [0] * (-len(codes) % parts)
        codes = bytes(sum(padded[at + i] << i * bits for i in range(parts)) for at in range(0, len(padded), parts))
    return onnx.TensorProto(name=name, data_type=element, dims=value.shape, raw_data=codes)


def _faults(case: Case, names: list[str], ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    """The defect of the first wrong output of ours, beside those of an engine; empty where nothing is."""
    found = ((name, _fault(case, name, ours[name], theirs[name])) for name in names)
    return next((f"{name}: {fault}" for name, fault in found if fault), "")


def _fault(case: Case, name: str, ours: Any, theirs: Any) -> str:
    """The defect of an output of ours beside that of an engine; empty where nothing is."""
    found = differences(ours, theirs)
    if not isinstance(found, str) and not found.any():
        return ""
    if isinstance(found, str) and not found.startswith(("shape", "another length")):
        return found
    return stands(case.model, case.feeds, case.seed, name, ours, theirs) or ""


def _references(case: Case) -> dict[str, dict[str, Any]]:
    """The outputs of the references that can run the case, by their names."""
    found: dict[str, dict[str, Any]] = {}
    names = [output.name for output in case.model.graph.output]
    with contextlib.suppress(ReferenceError_):
        values = evaluate_nodes(case.model, case.feeds)
        found["onnx"] = {name: values[name] for name in names}
    with contextlib.suppress(ReferenceError_):
        found["onnxruntime"] = dict(zip(names, run_onnxruntime(case.model, case.feeds)))
    if case.settings.target != "cpu":
        with contextlib.suppress(Exception):  # faults on the processor are found where that is the target
            found["cpu"] = run_ours(case.on("cpu"))[0]
    return found


def _attempt(case: Case) -> tuple[str, str, dict[str, Any]]:
    """(what went wrong in running ours, the message, the outputs)."""
    try:
        first, second = run_ours(case)
    except UserError as error:
        return REFUSED, f"{type(error).__name__}: {error}", {}
    except Exception as error:  # that is what is being looked for
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "tilewright" in f.filename]
        position = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        return RAW, f"{type(error).__name__}: {error}{position}", {}
    for name, value in first.items():
        found = differences(second[name], value)
        if isinstance(found, str) or found.any():
            return WRONG, f"{name}: the second run differs: {described(second[name], value, found)}", {}
    return "", "", first


def normalized(message: str) -> str:
    """A message without the names and numbers that differ from case to case."""
    plain = re.sub(r"its inputs .* have dim", "its inputs … have dim", message)
    plain = re.sub(r"\b[vn]\d+\w*|-?\b\d[\d.e+-]*", "#", re.sub(r"node '\w+'|_\d+\b", "", plain))
    return re.sub(r"\s+", " ", plain)[:200]


def _say(stage: str) -> None:
    print(json.dumps({"stage": stage}), flush=True)


def answer(request: str, target: str = "cpu") -> Outcome:
    """The outcome of a request."""
    _say("drawing")
    case = draw_case(int(request)).on(target) if request.isdigit() else Case.load(Path(request))
    if not case.model.graph.node or not case.model.graph.output:
        return Outcome(case.seed, INVALID, "an empty graph")
    return judge(case)


def main() -> None:
    """Answer requests until there are none."""
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        try:
            found = answer(line.strip(), *sys.argv[1:])
        except Exception:  # a fault of the fuzzer itself, which must not look like one of ours
            seed = int(line) if line.strip().isdigit() else -1
            found = Outcome(seed, INVALID, traceback.format_exc(limit=-2))
        print(json.dumps(asdict(found)), flush=True)


if __name__ == "__main__":
    main()
