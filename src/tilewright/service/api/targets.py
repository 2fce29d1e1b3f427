"""`/v1/targets`: what jobs are compiled for, with availability and its reason."""

from __future__ import annotations

from typing import Any

from tilewright.service.api.operation import Answer, Call, Operation, ref
from tilewright.service.api.schemas import OPTIONS
from tilewright.service.jobs.targets import ARTIFACT, LIBRARY, SOURCE, WASM, Offered, offered, runs_here

#: Options of jobs of kind compile that one form of artifact does not have.
_NOT_FOR = {
    ARTIFACT: {"freestanding", "ram_limit", "rom_limit"},
    LIBRARY: {"freestanding", "ram_limit", "rom_limit"},
    SOURCE: {"precision", "records"},
    WASM: {"freestanding", "ram_limit", "rom_limit"},
}
_FILES = {ARTIFACT: "model.tw", LIBRARY: "libmodel.so", SOURCE: "model.c", WASM: "model.wasm"}


def _described(target: Offered) -> dict[str, Any]:
    options = {name: schema for name, schema in OPTIONS["compile"].items() if name not in _NOT_FOR[target.form]}
    return {
        "name": target.name, "title": target.title, "kind": target.kind, "spelling": target.spelling,
        "artifact": _FILES[target.form], "available": not target.reason,
        "reason": target.reason, "runs_here": not target.reason and runs_here(target), "options": options,
    }  # fmt: skip


def _list(call: Call) -> Any:
    return [_described(target) for target in offered().values()]


OPERATIONS = (
    Operation("listTargets", "GET", "/v1/targets", "The targets of jobs.", _list,
              {200: Answer("All of them.", ref("Targets"))}),
)  # fmt: skip
