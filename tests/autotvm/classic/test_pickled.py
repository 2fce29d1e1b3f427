"""Lines by the protocol "pickle": round trips, lines of the classic stack, and what is refused unread."""

from __future__ import annotations

import base64
import collections
import pickle
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tilewright.autotvm.classic import record
from tilewright.autotvm.classic.measure import MeasureInput, MeasureResult
from tilewright.autotvm.template.entities import AnnotateEntity, OtherOptionEntity, ReorderEntity, SplitEntity
from tilewright.autotvm.template.space import ConfigEntity
from tilewright.errors import ArtifactError

ENTITIES = {
    "tile": SplitEntity([-1, 8]), "order": ReorderEntity([1, 0]), "note": AnnotateEntity(["vec"]),
    "unroll": OtherOptionEntity(True),
}  # fmt: skip


def pair() -> tuple[MeasureInput, MeasureResult]:
    task = record.RecordedTask("demo", (8, ("TENSOR", (8, 8), "float32")), {}, "llvm")
    return MeasureInput("llvm", task, ConfigEntity(3, "abc", ENTITIES)), MeasureResult((2.0, 0.5), 0, 2.5, 7.25)


def encoded(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def test_a_line_is_the_pair_again() -> None:
    inp, result = pair()
    row = record.encode(inp, result, "pickle")
    decoded = record.decode(row, "pickle")
    assert decoded is not None and "\n" not in row
    assert decoded[0].config == inp.config and decoded[1] == result
    assert record.measure_str_key(decoded[0]) == record.measure_str_key(inp)
    assert decoded[0].task.workload == inp.task.workload


def test_objects_of_the_classic_stack_are_read_without_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("autotvm.task.space")
    attributes = {"SplitEntity": "size", "ReorderEntity": "perm", "AnnotateEntity": "anns", "OtherOptionEntity": "val"}
    for name in (*attributes, "ConfigEntity"):
        setattr(module, name, type(name, (), {"__module__": module.__name__, "__qualname__": name}))
    for name in ("autotvm", "autotvm.task"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    config = module.ConfigEntity()
    config.index, config.code_hash, config._entity_map = 3, "abc", collections.OrderedDict()
    for name, entity in ENTITIES.items():
        config._entity_map[name] = getattr(module, type(entity).__name__)()
        setattr(config._entity_map[name], attributes[type(entity).__name__], entity.data)
    inp, result = pair()
    task = [inp.task.name, inp.task.args, {}]
    row = "\t".join(["llvm", encoded(task), encoded(config), encoded(tuple(result)), "0.2", "0.8"])
    monkeypatch.delitem(sys.modules, module.__name__)
    decoded = record.decode(row, "pickle")
    assert decoded is not None
    assert decoded[0].config == inp.config and decoded[1] == result


class _Runs:
    """Code that a stranger's line would run as it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_line_that_would_run_something_is_refused_and_does_not(tmp_path: Path) -> None:
    victim = tmp_path / "ran"
    inp, result = pair()
    good = record.encode(inp, result, "pickle").split("\t")
    for position in (1, 2, 3):
        row = "\t".join([*good[:position], encoded(_Runs(victim)), *good[position + 1 :]])
        with pytest.raises(ArtifactError, match=r"names pathlib\S*, which no record of a measurement needs"):
            record.decode(row, "pickle")
    assert not victim.exists()


def test_what_is_no_record_is_refused() -> None:
    inp, result = pair()
    good = record.encode(inp, result, "pickle").split("\t")
    circle: list[Any] = []
    circle.append(circle)
    bad = ("", "!", base64.b64encode(b"\x80\x05").decode(), encoded(circle), encoded({1, 2}), encoded(5))
    for wrong in bad:
        for position in (1, 2, 3):
            with pytest.raises(ArtifactError, match=r"no line of a log|no part of a record|no configuration"):
                record.decode("\t".join([*good[:position], wrong, *good[position + 1 :]]), "pickle")
    with pytest.raises(ArtifactError, match="as 'json' or 'pickle', not 'yaml'"):
        record.encode(inp, result, "yaml")
