"""Facts of an operator stand in its registration: no other table has operators as its keys.

A table keyed by operator names outside `relay/op` is a missing field of `Op`; a rule of a pass about one pattern is
entered by its root (`relay/transform/simplify/rule_index.py`).
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilewright
from tilewright.errors import InternalError
from tilewright.relay.ir import registry

PACKAGE = Path(tilewright.__file__).parent
NAMES = set(registry.names())
#: Folders whose tables may name operators, and why.
ELSEWHERE = {
    "relay/op": "here they are registered",
    "compat": "classic names and where they lead",
    "frontend": "a foreign format's names",
    "service/api": "keywords of JSON Schema, minimum and maximum",
}
#: Files that have the name of an operator in a table that is of something else.
OTHER_NAMES = {
    "autotvm/sketch/points.py": "knobs of a sketch, by how their names begin",
    "topi/schedule/sketch/structure.py": "intrinsics of loops that cost no more than an addition",
    "autotvm/feature/nest.py": "kinds of arithmetic in loops, which are counted",
    "cli/rounding.py": "operators of source models, as the formats spell them",
    "cli/calibrate.py": "instructions whose cycles are measured",
    "backend/vta/patterns.py": "steps of the accelerator's vector unit, and the operators that they compute",
    "vta/explore/networks.py": "products as models and as quantizers spell them, of which the sizes are read",
    "relay/ir/literals.py": "the functions of symbolic sizes, min and max",
    "relay/ir/parse_types.py": "the functions of symbolic sizes, min and max",
    "runtime/host_ops/external.py": "steps of the code generator `host` in an artifact, which the runtime reads alone",
}
#: Layers below the operators, which have functions of their own called `exp` and `max`.
BELOW = ("topi", "te", "tir", "arith", "codegen", "runtime")


def tables(tree: ast.AST) -> Iterator[tuple[int, list[str]]]:
    """The line and the operators of each dictionary (its keys), set, tuple and list in which there are several."""
    for node in ast.walk(tree):
        entries = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
        found = [entry.value for entry in entries if isinstance(entry, ast.Constant) and entry.value in NAMES]
        if len(found) > 1:
            yield node.lineno, found


def is_elsewhere(path: str) -> bool:
    return path in OTHER_NAMES or any(path.startswith(f"{folder}/") for folder in ELSEWHERE)


def test_no_other_table_has_operators_as_its_keys() -> None:
    wrong = []
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        text = file.read_text()
        if is_elsewhere(path) or len(NAMES.intersection(re.findall(r"""["']([\w.]+)["']""", text))) < 2:
            continue
        for line, found in tables(ast.parse(text)):
            if not path.startswith(BELOW) or any("." in name for name in found):
                wrong.append(f"{path}:{line} {', '.join(found)}")
    assert not wrong, "tables of operators outside relay/op; make them fields of Op:\n" + "\n".join(wrong)


def named_operators(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the text of each operator that a pass asks for by name."""
    asking = {"is_call": 1, "make": 0, "get": 0, "rule_of": 0}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in asking:
            first = asking[node.func.id]
            asked = node.args[first:] if node.func.id in ("is_call", "rule_of") else node.args[first : first + 1]
            yield from [(arg.lineno, arg.value) for arg in asked if isinstance(arg, ast.Constant)]


def test_passes_name_operators_that_there_are() -> None:
    wrong, seen = [], 0
    for file in sorted((PACKAGE / "relay" / "transform").rglob("*.py")):
        for line, name in named_operators(ast.parse(file.read_text())):
            seen += 1
            if name not in NAMES:
                wrong.append(f"{file.name}:{line} {name!r}")
    assert not wrong and seen > 100, wrong


def test_the_exceptions_are_still_needed() -> None:
    for path in OTHER_NAMES:
        assert list(tables(ast.parse((PACKAGE / path).read_text()))), f"{path} has no such table any more"


@pytest.mark.parametrize(
    "source",
    ['{"nn.dense": 1, "add": 2}', 'frozenset({"exp", "log"})', 'dict.fromkeys(("nn.conv2d", "nn.dense"), 1)'],
)
def test_a_table_is_found(source: str) -> None:
    assert [found for _, found in tables(ast.parse(source))]


def test_an_operator_is_immutable() -> None:
    relu = registry.get("nn.relu")
    with pytest.raises(dataclasses.FrozenInstanceError):
        relu.costly = True  # type: ignore[misc]
    with pytest.raises(InternalError, match="two gradients"):
        registry.set_gradient("nn.relu", lambda _call, _g: [None])


def test_names_among_the_fields_are_operators() -> None:
    for name in NAMES:
        op = registry.get(name)
        for other in (op.fast, op.quantized):
            assert not other or other in NAMES, f"{name} names {other}, which is no operator"


def test_fields_agree_with_each_other() -> None:
    for op in map(registry.get, sorted(NAMES)):
        assert op.absorbing is None or op.commutative, f"{op}: an absorbing operand on one side only has no rule"
        assert not op.associative or op.commutative, f"{op}: constants combine on the right, where they are brought"
        assert not op.rearranges or op.num_inputs == 1, f"{op} rearranges its input, so it has one"
