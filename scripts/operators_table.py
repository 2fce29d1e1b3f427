#!/usr/bin/env python
"""Write docs/operators.md: every Relay operator with what it has, from the registry itself.

    python scripts/operators_table.py [--check]     (--check writes nothing and fails where the page is not current)

The element types are found by trying the type rule on the operator's test cases with each type in turn.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.relay.op.cases import CASES  # noqa: E402
from tilewright.errors import TilewrightError  # noqa: E402
from tilewright.relay.ir import registry  # noqa: E402
from tilewright.relay.ir.expr import Call, Expr, Tuple, Var  # noqa: E402
from tilewright.relay.ir.type import TensorType  # noqa: E402
from tilewright.relay.ir.type_of import type_of  # noqa: E402

PAGE = ROOT / "docs" / "operators.md"
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
#: What a set of accepted types is called.
KINDS = {
    (*FLOATS, *INTEGERS, "bool"): "all",
    (*FLOATS, *INTEGERS): "numbers",
    (*INTEGERS, "bool"): "integers, bool",
    FLOATS: "floats",
    INTEGERS: "integers",
    ("bool",): "bool",
}
INTRODUCTION = """\
# Operators

Every Relay operator, as `scripts/operators_table.py` found it in the registry (`relay/ir/registry.py`); a test keeps
this page current. `relay.NAME(…)` builds a call; its docstring says what it computes.

- *inputs*: how many arguments; `n` where it varies. A tuple counts as one.
- *types*: element types of the data that the type rule accepts. Operands of other roles (indices, conditions) have
  their own. A dash: not tried, for an operator of the host takes what NumPy takes.
- *computed by*: `kernel`, a tensor expression of its own; `operators`, it is written in other operators, which
  `expand_operators` puts instead; `host`, a NumPy function that the virtual machine calls, for what cannot be
  a kernel of fixed shape.
- *fuses as*: its category (OSDI 2018, section 3); operators that are written in others fuse as those do.
- *gradient*: `yes`, or `by parts` where it is that of the operators it is written in.
- *layout*: it has a rule for blocked layouts.

All have a NumPy reference. Each kernel is compared with it, each gradient with finite differences, and each expansion
with the operator's reference (`tests/relay/op`).
"""

CLASSIC = """
All 277 operators of classic Relay are among them. `call_lowered`, `vm.invoke_tvm_op` and `vm.shape_func` take functions
of the module; the latter two and `memory.*` work on storage, so they are evaluated in the order of their `let`s.
`vm.shape_func` needs result shapes that are expressions in named sizes (`n`, not `?`). `contrib.ethosu.*` computes what
these processors do to the bit, but for the activations TANH and SIGMOID, which must come as tables (`LUT`), and for
rescaling in pooling and arithmetic, which rounds the exact real value once.
"""


def with_dtype(arg: Expr, old: object, new: str) -> Expr:
    """A variable like `arg` (or a tuple of such), of type `new` where it was `old`."""
    if isinstance(arg, Tuple):
        return Tuple([with_dtype(field, old, new) for field in arg.fields])
    kind = type_of(arg)
    assert isinstance(kind, TensorType)
    return Var("x", TensorType(kind.shape, new if kind.dtype == old else kind.dtype))


def accepts(call: Call, dtype: str) -> bool:
    """True if the type rule takes the call with the data in `dtype`."""
    first = call.args[0].fields[0] if isinstance(call.args[0], Tuple) else call.args[0]
    data = call.args[1] if call.op.name == "where" else first
    old = type_of(data).dtype
    attrs = {
        k: dtype if k == "dtype" and v == str(old) and call.op.name != "cast" else v for k, v in call.attrs.items()
    }
    try:
        type_of(Call(call.op, [with_dtype(arg, old, dtype) for arg in call.args], attrs))
    except TilewrightError:
        return False
    return True


def element_types(name: str) -> str:
    """The element types that the operator takes, in words."""
    calls = [call for call in CASES.get(name, []) if call.args]
    if not calls:
        return "–"
    found = tuple(dtype for dtype in (*FLOATS, *INTEGERS, "bool") if any(accepts(call, dtype) for call in calls))
    return KINDS.get(found, ", ".join(found))


def row(name: str) -> str:
    """The operator's line of the table."""
    op = registry.get(name)
    inputs = "n" if op.num_inputs < 0 else str(op.num_inputs)
    computed = "kernel" if op.compute else "operators" if op.expansion else "host"
    fuses = "–" if op.compute is None else op.pattern.name.lower().replace("_", " ")
    gradient = "yes" if op.gradient else "by parts" if op.expansion and name in CASES else "–"
    layout = "yes" if op.layout else "–"
    return f"| `{name}` | {inputs} | {element_types(name)} | {computed} | {fuses} | {gradient} | {layout} |"


def page() -> str:
    """The whole page."""
    names = [name for name in registry.names() if not name.startswith(("onnx.", "list."))]
    head = "| operator | inputs | types | computed by | fuses as | gradient | layout |\n|---|---|---|---|---|---|---|\n"
    count = f"\n{len(names)} operators, beside those of the ONNX importer (`onnx.*`) and of lists (`list.*`).\n\n"
    return INTRODUCTION + count + head + "\n".join(row(name) for name in names) + "\n" + CLASSIC


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(page() != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(page(), encoding="utf-8")
