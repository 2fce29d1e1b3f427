"""The steps of a schedule as a Python program and as JSON, and replaying them on the same graph."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilewright.errors import ScheduleError
from tilewright.support.recursion import nested
from tilewright.te.group import Group
from tilewright.te.itervar import IterType, IterVar, thread_axis
from tilewright.te.operation import Operation
from tilewright.te.stage import Stage
from tilewright.te.step import Step
from tilewright.te.tensor import Tensor
from tilewright.te.tensor_intrin import TensorIntrin
from tilewright.tir import expr as e
from tilewright.tir import op as tir_op
from tilewright.tir.node import Node
from tilewright.tir.visitor import collect_vars

if TYPE_CHECKING:
    from tilewright.te.schedule import Schedule

FORMAT = 1


def steps_to_json(schedule: Schedule) -> str:
    """See `Schedule.to_json`."""
    return json.dumps({"format": FORMAT, "steps": list(_Names(schedule).encoded())}, indent=1)


def steps_to_text(schedule: Schedule) -> str:
    """See `Schedule.to_text`."""
    lines = []
    for entry in _Names(schedule).encoded():
        made = entry["makes"]
        left = f"{', '.join(made)}{',' if entry['several'] and len(made) == 1 else ''} = " if made else ""
        if entry["do"] == "thread_axis":
            span, tag, name = entry["args"]
            lines.append(f"{left}te.thread_axis({'' if span is None else f'(0, {span}), '}{tag!r}, name={name!r})")
            continue
        owner = {"schedule": "s", "stage": f"s[{entry['of']}]", "group": entry["of"]}[entry["on"]]
        given = [_text(a) for a in entry["args"]] + [f"{k}={_text(v)}" for k, v in entry["kwargs"].items()]
        lines.append(f"{left}{owner}.{entry['do']}({', '.join(given)})")
    return "\n".join(lines) + "\n" if lines else ""


def _text(value: Any) -> str:
    """Encoded data as Python source."""
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    if not isinstance(value, dict):
        return repr(value)
    kind, content = next(iter(value.items()))
    if kind == "axis":
        return f"s[{content[0]}].op.{content[1]}[{content[2]}]"
    if kind == "stage":
        return f"s[{content}]"
    if kind == "intrinsic":
        return f"intrinsics[{content!r}]"
    if kind == "variable":
        return f"{_text(content)}.var"
    if kind == "constant":
        return f"tir.const({content[0]!r}, {content[1]!r})"
    if kind == "node":
        return f"tir.{content[0]}({', '.join(map(_text, content[1:]))})"
    return str(content)  # a name


# ---------------------------------------------------------------------------------------------------- writing
class _Names:
    """Names for what the steps of a schedule speak of: tensors of the graph, and what the steps made."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.names: dict[Any, str] = dict(_tensor_names([s.origin_op for s in _first_stages(schedule)]))
        self.taken = set(self.names.values())
        for variable, name in _free_variables(schedule.outputs).items():
            self.names[variable] = name
        self.roots: dict[IterVar, tuple[str, str, int]] = {}
        self.known: set[Operation] = set()

    def encoded(self) -> Iterator[dict[str, Any]]:
        """Each step as plain data, preceded by the thread axes it is the first to name."""
        for stage in _first_stages(self.schedule):
            self._learn_roots(stage, stage.origin_op)
        for step in self.schedule.steps:
            for thread in self._new_threads(step):
                span = None if thread.dom is None else self._encode(thread.dom.extent)
                yield _entry(
                    "thread_axis", "schedule", "", [span, thread.thread_tag, thread.name], {}, [self._name(thread)]
                )
            on, of = "schedule", ""
            if isinstance(step.stage, Stage):
                on, of = "stage", self.names[step.stage.outputs[0]]
            elif step.stage is not None:
                on, of = "group", self.names[step.stage]
            args, kwargs = [self._encode(a) for a in step.args], {k: self._encode(v) for k, v in step.kwargs.items()}
            several = isinstance(step.result, (list, tuple))
            yield _entry(step.name, on, of, args, kwargs, [self._name(x) for x in _made(step)], several)
            for stage, computed in step.ops:
                self._learn_roots(stage, computed)

    def _learn_roots(self, stage: Stage, computed: Operation) -> None:
        """Record the axes that no step made: the operation's own, in the stage that computes it now."""
        if computed not in self.known:
            self.known.add(computed)
            for kind in ("axis", "reduce_axis"):
                for i, iv in enumerate(getattr(computed, kind)):
                    self.roots[iv] = (self.names[stage.outputs[0]], kind, i)

    def _new_threads(self, step: Step) -> list[IterVar]:
        given = [x for a in (*step.args, *step.kwargs.values()) for x in (a if isinstance(a, (list, tuple)) else [a])]
        return [x for x in given if isinstance(x, IterVar) and x.iter_type is IterType.THREAD and x not in self.names]

    def _name(self, thing: Any) -> str:
        """A new name for what a step made."""
        stem = f"{thing.op.name}" if isinstance(thing, Tensor) else "group" if isinstance(thing, Group) else thing.name
        self.names[thing] = _fresh(stem, self.taken)
        return self.names[thing]

    @nested
    def _encode(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (list, tuple)):
            return [self._encode(v) for v in value]
        if isinstance(value, TensorIntrin):
            return {"intrinsic": value.name}
        if isinstance(value, Stage):
            return {"stage": self.names[value.outputs[0]]}
        if isinstance(value, Operation):
            value = value.output(0)
        if value in self.names:
            return {"name": self.names[value]}
        if value in self.roots:
            return {"axis": list(self.roots[value])}
        if isinstance(value, e.IntImm) and value.dtype == "int32":
            return value.value
        if isinstance(value, e.Var):
            owner = next((iv for iv in (*self.names, *self.roots) if isinstance(iv, IterVar) and iv.var is value), None)
            if owner is not None:
                return {"variable": self._encode(owner)}
        elif isinstance(value, Node):
            return {"node": [type(value).__name__, *[self._encode_field(field) for field in value.fields()]]}
        raise ScheduleError(f"the schedule cannot be written down: nothing names {value!r}")

    def _encode_field(self, field: Any) -> Any:
        """Part of an expression: constants keep their type."""
        if isinstance(field, (e.IntImm, e.FloatImm)):
            return {"constant": [field.value, str(field.dtype)]}
        return self._encode(field)


def _entry(
    do: str,
    on: str,
    of: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    makes: Sequence[str],
    several: bool = False,
) -> dict[str, Any]:
    """One step as data; `several` says that it returns a list or tuple, even of one."""
    entry = {"do": do, "on": on, "of": of, "args": list(args), "kwargs": dict(kwargs)}
    return entry | {"makes": list(makes), "several": several}


def _made(step: Step) -> list[Any]:
    result = step.result
    return [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]


def _first_stages(schedule: Schedule) -> list[Stage]:
    """The stages that were there before the first step."""
    later = {x.op for step in schedule.steps for x in _made(step) if isinstance(x, Tensor)}
    return [s for s in schedule.stages if s.origin_op not in later]


def _fresh(stem: str, taken: set[str]) -> str:
    """A Python name like `stem` that is not taken, from now on taken."""
    clean = re.sub(r"\W", "_", stem)
    clean = clean if clean and not clean[0].isdigit() else f"t{clean}"
    name, count = clean, 0
    while name in taken or name in ("s", "te", "tir", "intrinsics"):
        count += 1
        name = f"{clean}_{count}"
    taken.add(name)
    return name


def _tensor_names(ops: Sequence[Operation]) -> dict[Tensor, str]:
    taken: set[str] = set()
    return {tensor: _fresh(tensor.name, taken) for op in ops for tensor in op.outputs}


def _free_variables(outputs: Sequence[Operation]) -> dict[e.Var, str]:
    """The variables in the shapes of the graph, by their names."""
    found: dict[e.Var, str] = {}
    seen: set[Operation] = set()
    work = list(outputs)
    while work:
        op = work.pop()
        if op not in seen:
            seen.add(op)
            for tensor in op.outputs:
                for variable in collect_vars(list(tensor.shape)):
                    found.setdefault(variable, variable.name)
            work.extend(t.op for t in op.input_tensors)
    return found


# ---------------------------------------------------------------------------------------------------- reading
def graph_names(schedule: Schedule) -> dict[str, Any]:
    """The names of the graph's tensors and shape variables in the program of `Schedule.to_text`."""
    tensors = _tensor_names([s.origin_op for s in _first_stages(schedule)])
    variables = _free_variables(schedule.outputs)
    return {name: t for t, name in tensors.items()} | {name: v for v, name in variables.items()}


def replay(schedule: Schedule, text: str, intrinsics: Mapping[str, TensorIntrin]) -> None:
    """Does to `schedule`, fresh, the steps of the JSON `text`. Raises ScheduleError where they do not fit the graph."""
    try:
        data = json.loads(text)
        entries = data["steps"]
        known = data["format"] == FORMAT
    except (ValueError, KeyError, TypeError) as error:
        raise ScheduleError(f"this is no saved schedule: {error}") from None
    if not known:
        raise ScheduleError(f"the schedule was saved in format {data['format']}; this version reads format {FORMAT}")
    names = graph_names(schedule)
    for entry in entries:
        _replay_step(schedule, entry, names, intrinsics)


def _replay_step(
    schedule: Schedule, entry: Mapping[str, Any], names: dict[str, Any], intrinsics: Mapping[str, TensorIntrin]
) -> None:
    @nested
    def decode(value: Any) -> Any:
        if isinstance(value, list):
            return [decode(v) for v in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        return _DECODE[kind](content, decode, lookup)

    def lookup(kind: str, name: str) -> Any:
        table: Mapping[str, Any] = intrinsics if kind == "intrinsic" else names
        if name not in table:
            raise ScheduleError(f"the saved schedule speaks of the {kind} {name!r}, which this graph does not have")
        return schedule[table[name]] if kind == "stage" else table[name]

    args = [decode(a) for a in entry["args"]]
    if entry["do"] == "thread_axis":
        span, tag, name = args
        result: Any = thread_axis(None if span is None else (0, span), tag, name)
    else:
        owner = schedule if entry["on"] == "schedule" else lookup(entry["on"], entry["of"])
        method: Any = getattr(type(owner), entry["do"], None)
        if not hasattr(method, "__wrapped__"):
            raise ScheduleError(f"the saved schedule has the step {entry['do']!r}, which is no primitive")
        result = method(owner, *args, **{k: decode(v) for k, v in entry["kwargs"].items()})
    made = [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
    names.update(zip(entry["makes"], made, strict=True))


def _node(content: list[Any], decode: Callable[[Any], Any], lookup: Callable[[str, str], Any]) -> Any:
    cls = getattr(e, content[0], None)
    if not (isinstance(cls, type) and issubclass(cls, e.Expr)):
        raise ScheduleError(f"the saved schedule has a node of kind {content[0]!r}, which is no expression")
    fields = [tuple(v) if isinstance(v, list) else v for v in map(decode, content[1:])]
    return cls(*fields)


_DECODE: dict[str, Callable[[Any, Callable[[Any], Any], Callable[[str, str], Any]], Any]] = {
    "name": lambda content, decode, lookup: lookup("name", content),
    "stage": lambda content, decode, lookup: lookup("stage", content),
    "intrinsic": lambda content, decode, lookup: lookup("intrinsic", content),
    "axis": lambda content, decode, lookup: getattr(lookup("stage", content[0]).op, content[1])[content[2]],
    "variable": lambda content, decode, lookup: decode(content).var,
    "constant": lambda content, decode, lookup: tir_op.const(*content),
    "node": _node,
}
