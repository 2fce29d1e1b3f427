"""Lines of logs by the protocol "pickle", read without running what a stranger wrote into them.

    row = pickled_row(target, ["matmul", [8, 8], {}], config.to_json_dict(), (costs, 0, 0.1, 1.6e9), ["0.2", "me"])
    unpickled_row(row)                       # the same four things, as plain data

A line is of fields parted by tabs: the target, then task, configuration and result as pickles in base 64, then
versions. Here such a pickle is of plain data. Those of the classic stack have objects of a few classes, which a
reader stands in for; a pickle that names any other function or class is refused before anything of it is called.
"""

from __future__ import annotations

import base64
import io
import pickle
from collections.abc import Sequence
from typing import Any

from tilewright.errors import ArtifactError

#: Where the classic stack had the classes of configurations, and for each class its kind in logs and its one attribute.
_MODULES = ("tvm.autotvm.task.space", "autotvm.task.space")
_KINDS = {
    "SplitEntity": ("sp", "size"), "ReorderEntity": ("re", "perm"), "AnnotateEntity": ("an", "anns"),
    "OtherOptionEntity": ("ot", "val"),
}  # fmt: skip


def pickled_row(target: str, task: Any, config: Any, result: Any, versions: Sequence[str]) -> str:
    """The line of what is plain data."""
    fields = [base64.b64encode(pickle.dumps(value)).decode() for value in (task, config, result)]
    return "\t".join([target, *fields, *versions])


def unpickled_row(row: str) -> tuple[str, Any, Any, Any]:
    """Target, task, configuration (as `to_json_dict` has it) and result of a line. Raises `ArtifactError`."""
    fields = row.rstrip("\r\n").split("\t")
    if len(fields) < 4:
        raise ArtifactError(f"no line of a log by the protocol 'pickle', which has 4 fields or more: {row[:80]}")
    try:
        task, config, result = (_plain(_Reader(base64.b64decode(field)).load()) for field in fields[1:4])
    except ArtifactError:
        raise
    except Exception as error:  # what a broken pickle raises depends on where it breaks
        raise ArtifactError(f"no line of a log by the protocol 'pickle': {error!r}: {row[:80]}") from None
    return fields[0], task, config, result


class _Object:
    """Stands in for an object of the classic stack: its attributes, and nothing that runs."""

    kind = ""


class _Reader(pickle.Unpickler):
    """Knows the classes of configurations, each as a class of its own that nothing else uses, and no others."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return type("Mapping", (dict,), {})
        if module in _MODULES and (name in _KINDS or name == "ConfigEntity"):
            return type(name, (_Object,), {"kind": name})
        raise ArtifactError(
            f"this line's pickle names {module}.{name}, which no record of a measurement needs: it is not read"
        )


def _plain(value: Any) -> Any:
    """A value as plain data. Raises `ArtifactError` for what is none."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, dict):
        return {_plain(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, _Object) and value.kind in _KINDS:
        code, attribute = _KINDS[value.kind]
        return [code, _plain(vars(value)[attribute])]
    if isinstance(value, _Object) and value.kind == "ConfigEntity":
        state = vars(value)
        entities = [[name, *entity] for name, entity in _plain(state["_entity_map"]).items()]
        return {"index": _plain(state["index"]), "code_hash": _plain(state["code_hash"]), "entity": entities}
    raise ArtifactError(f"a {type(value).__name__} is no part of a record of a measurement")
