"""The C side of a model with states, in steps: one struct a stream, which the caller keeps.

    tilewright_NAME_init(&state);  tilewright_NAME_reset(&state);     the states before the first step
    int tilewright_NAME_step(&state, inputs, outputs, workspace, size);        one step, checked as _run is

A state is an input of the model and the result that is this input of the next step. The struct has both, which change
roles: nothing is copied, and after an error the states are what they were. States that the model updates in place are
there once; a step whose arguments are refused changes nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.errors import InputError, UnsupportedError
from tilewright.runtime.c_interface import CInterface
from tilewright.runtime.memory import Array
from tilewright.runtime.signature import TensorSpec

#: The name of the result that is a declared state, behind the state's own.
_NEXT = ":next"

_DECLARED = """
/* The model {name} in steps: its states between them, which the caller keeps, one struct a stream. */
typedef struct {{
{fields}
}} tilewright_{name}_state;

/* Sets the states to those before the first step; reset does the same. */
void tilewright_{name}_init(tilewright_{name}_state *state);
void tilewright_{name}_reset(tilewright_{name}_state *state);

/* One step. The pointers are those of tilewright_{name}_run without the states: {inputs} in, {outputs} out.
   Returns what that does; {after}. */
int tilewright_{name}_step(tilewright_{name}_state *state, const void *const *inputs, void *const *outputs,
                           void *workspace, size_t workspace_size);
"""

_DEFINED = """
void tilewright_{name}_init(tilewright_{name}_state *state) {{
{tables}  size_t i;
{fills}}}

void tilewright_{name}_reset(tilewright_{name}_state *state) {{
  tilewright_{name}_init(state);
}}

int tilewright_{name}_step(tilewright_{name}_state *state, const void *const *inputs, void *const *outputs,
                           void *workspace, size_t workspace_size) {{
  const void *all_inputs[{input_count}];
  void *all_outputs[{output_count}];
  int code;
  if (!state{null_tests}) return 1;
{pointers}  code = tilewright_{name}_run(all_inputs, all_outputs, workspace, workspace_size);
{turn}  return code;
}}
"""


@dataclass(frozen=True)
class State:
    """A state of a stream: its field in C, the numbers of the input and the output that it is, its first values; and
    whether the model writes the one over the other.
    """

    field: str
    spec: TensorSpec
    input: int
    output: int
    first: Array
    in_place: bool = False

    @property
    def now(self) -> str:
        """The values in C, of before a step."""
        return f"state->{self.field}" + ("" if self.in_place else "[state->turn]")

    @property
    def next(self) -> str:
        """Those of after it."""
        return self.now if self.in_place else f"state->{self.field}[1 - state->turn]"


def states_of(
    interface: CInterface,
    pairs: Mapping[str, str] | None = None,
    first: Callable[[], Mapping[str, Array]] = dict,
    given: Mapping[str, Array] | None = None,
    in_place: bool = False,
) -> list[State]:
    """The states of a model: those that it declares, and `pairs` of an input's name and an output's.

    `first` returns the values of declared ones before the first step, `given` are others; the rest are zeros. `pairs`
    may be updated `in_place`. Raises `InputError` for names that are not there and pairs of unlike tensors,
    `UnsupportedError` for symbolic sizes.
    """
    inputs = {spec.name: index for index, spec in enumerate(interface.inputs)}
    outputs = {spec.name: index for index, spec in enumerate(interface.outputs)}
    declared = {name: name + _NEXT for name in inputs if name + _NEXT in outputs}
    values = {**(first() if declared else {}), **(given or {})}
    states: list[State] = []
    for name, result in (declared | dict(pairs or {})).items():
        if name not in inputs or result not in outputs:
            have = f"inputs: {', '.join(inputs)}; outputs: {', '.join(outputs)}"
            raise InputError(f"{name}={result} is no state: name an input and the output that it becomes ({have})")
        spec, other = interface.inputs[inputs[name]], interface.outputs[outputs[result]]
        if interface.is_symbolic:
            raise UnsupportedError("a stream has states of fixed sizes: fix them, as by --input-shapes")
        if (spec.dtype, spec.static_shape) != (other.dtype, other.static_shape):
            raise InputError(f"{name}={result} is no state: {spec} and {other} have different types")
        field = re.sub(r"\W", "_", name, flags=re.ASCII).strip("_")
        taken = {"turn", *(one.field for one in states)}
        fits = field[:1].isalpha() and field not in taken
        made = field if fits else f"state{len(states)}"
        initial = np.asarray(values.get(name, np.zeros(spec.static_shape)), spec.numpy)
        states.append(State(made, spec, inputs[name], outputs[result], initial, in_place and name in (pairs or ())))
    return states


def c_type(spec: TensorSpec) -> str:
    """The type of a tensor's elements in C; those that C has none for are their bits."""
    dtype = str(spec.dtype)
    named = {"float32": "float", "float64": "double", "bool": "uint8_t"}
    return named.get(dtype, f"{dtype}_t" if "int" in dtype else f"uint{8 * spec.dtype.itemsize}_t")


def stream_declarations(name: str, interface: CInterface, states: Sequence[State]) -> str:
    """The struct and the functions of the header; nothing without states."""
    if not states:
        return ""
    turn = [] if _all_in_place(states) else ["  int32_t turn; /* the half that holds the states now */"]
    halves = [f"{one.field}{'' if one.in_place else '[2]'}" for one in states]
    fields = "\n".join([*turn, *(f"  {c_type(s.spec)} {name}[{_count(s)}];" for s, name in zip(states, halves))])
    after = "after an error the states are as before" if turn else "where it refuses its arguments nothing is changed"
    inputs = len(interface.inputs) - len(states)
    outputs = len(interface.outputs) - len(states)
    return _DECLARED.format(name=name, fields=fields, inputs=inputs, outputs=outputs, after=after)


def stream_text(name: str, interface: CInterface, states: Sequence[State]) -> str:
    """The functions; nothing without states."""
    if not states:
        return ""
    turns = not _all_in_place(states)
    tables, fills = "", "  state->turn = 0;\n" if turns else ""
    for one in states:
        table, value = _first(one)
        tables += table
        begun = f"state->{one.field}{'' if one.in_place else '[0]'}"
        fills += f"  for (i = 0; i < {_count(one)}; i++) {begun}[i] = {value};\n"
    pointers, null_tests = "", ""
    for kind, specs in (("input", interface.inputs), ("output", interface.outputs)):
        own = {one.input: one.now for one in states} if kind == "input" else {one.output: one.next for one in states}
        others = iter(range(len(specs)))
        null_tests += f" || !{kind}s" if len(specs) > len(states) else ""
        for index in range(len(specs)):
            source = own[index] if index in own else f"{kind}s[{next(others)}]"
            pointers += f"  all_{kind}s[{index}] = {source};\n"
    unused = "".join(
        f"  (void){kind}s;\n"
        for kind, specs in (("input", interface.inputs), ("output", interface.outputs))
        if len(specs) == len(states)
    )
    return _DEFINED.format(
        name=name,
        tables=tables,
        fills=fills,
        input_count=len(interface.inputs),
        output_count=len(interface.outputs),
        null_tests=null_tests,
        pointers=unused + pointers,
        turn="  if (code == 0) state->turn = 1 - state->turn;\n" if turns else "",
    )


def _all_in_place(states: Sequence[State]) -> bool:
    return all(one.in_place for one in states)


def _count(state: State) -> int:
    return max(math.prod(state.spec.static_shape), 1)


def _first(state: State) -> tuple[str, str]:
    """A table of the first values, where they differ, and the C expression of element i."""
    values = state.first.reshape(-1)
    if str(state.spec.dtype) not in ("float32", "float64"):
        values = values.view(f"u{values.itemsize}") if values.dtype.kind not in "iu" else values
    if values.size == 0 or (values == values[0]).all():
        return "", _number(values[0], state) if values.size else "0"
    listed = ", ".join(_number(value, state) for value in values)
    name = f"first_{state.field}"
    return f"  static const {c_type(state.spec)} {name}[{values.size}] = {{{listed}}};\n", f"{name}[i]"


def _number(value: Array, state: State) -> str:
    kind = c_type(state.spec)
    if kind == "float":
        return f"{float(value).hex()}f"
    if kind == "double":
        return float(value).hex()
    least = -(2**31) if kind == "int32_t" else -(2**63)
    if int(value) == least:  # whose literal would be one above the greatest, negated
        return f"({kind})({least + 1} - 1)"
    return str(int(value)) + ("u" if kind.startswith("u") else "")
