"""`tilewright run MODEL --dump DIR`: every result of every operator as a file, and a list of them with their times.

`DIR/steps.json` has an entry for each operator in the order of execution: its number, operator, source nodes, seconds,
and for each value its file (.npy), dtype and shape; compared with another engine, also how far it is from that.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tilewright.cli.outputs import check_writable
from tilewright.cli.reference import reference_of
from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime.vm.debug import DebugMachine, Step

if TYPE_CHECKING:
    from tilewright.frontend.comparison import Difference

Array = np.ndarray[Any, Any]
#: Bound on max|ours - ref| / max|ref| of an inner value.
RTOL = 1e-3


def dump(model: DebugMachine, inputs: Mapping[str, Array], folder: Path) -> list[dict[str, Any]]:
    """Run `model` and write all values into `folder`; the entries of ``steps.json``, which the caller writes."""
    entries: list[dict[str, Any]] = []

    def see(step: Step) -> None:
        stem = f"{len(entries):05d}_{step.operator}"
        files = [file for i, value in enumerate(step.values) for file in _write(folder, f"{stem}.{i}", value)]
        entry = {"operator": step.operator, "source": step.source, "seconds": step.seconds, "values": files}
        entries.append({"number": len(entries), **entry})

    model.watch(inputs, see)
    return entries


def _write(folder: Path, stem: str, value: Any) -> Iterator[dict[str, Any]]:
    """Write one value, the items of a sequence one by one; what ``steps.json`` says of each file."""
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _write(folder, f"{stem}.{index}", item)
        return
    if value is None:
        return
    array = np.asarray(value)
    if array.dtype == object:
        plain = array.astype(str)
    else:  # files have no names for the narrow types of ml_dtypes
        plain = array.astype(np.float32) if array.dtype.kind == "V" else array
    np.save(folder / f"{stem}.npy", plain)
    yield {"file": f"{stem}.npy", "dtype": str(array.dtype), "shape": list(array.shape)}


def compare_dump(
    path: str, inputs: Mapping[str, Array], folder: Path, entries: list[dict[str, Any]], engine: str
) -> list[Difference]:
    """Differences between the last step of each node of the model at `path` and its value in `engine`, in order of
    execution.

    The entries get it too. Nodes in branches and loops are left out, as are those with a step of another shape.
    """
    # running an artifact imports no frontend
    from tilewright.frontend.comparison import compare

    model = reference_of(path)
    nodes = model.nodes()
    count = Counter(node.span for node in nodes)
    outputs = {node.span: node.outputs[0] for node in nodes if count[node.span] == 1}
    last = {entry["source"].split(";")[-1]: entry for entry in entries if entry["values"]}
    wanted = {name: value for name, value in outputs.items() if name in last and value}
    reference = model.values(inputs, list(wanted.values()), engine)
    differences = []
    for name, entry in last.items():
        theirs = reference.get(wanted.get(name, ""))
        if not isinstance(theirs, np.ndarray) or list(theirs.shape) != entry["values"][0]["shape"]:
            continue
        if theirs.dtype.kind not in "fiub":
            continue
        ours = np.load(folder / entry["values"][0]["file"])
        found = compare(f"{name} ({entry['operator']}, step {entry['number']})", ours, theirs, RTOL, 0.0)
        entry[engine] = {
            "value": wanted[name],
            "difference": found.error,
            "scale": found.scale,
            "ok": found.passed,
        }
        differences.append(found)
    return differences


def check_folder(path: str) -> None:
    """Raise `InputError` where `path` is taken, `EnvironmentError_` where no folder can be made."""
    target = Path(path)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"--dump {path}: there is something there already; name a new or an empty folder")
    if not target.exists():
        check_writable(path)


@contextmanager
def _new_folder(path: str) -> Iterator[Path]:
    """A temporary folder that becomes `path` at the end, unless there is an exception."""
    target = Path(path)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
        try:
            yield temporary
            temporary.chmod(0o755)
            os.replace(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise EnvironmentError_(f"cannot write {path}: {error.strerror or error}") from None


def dump_to(path: str, model_path: str, model: DebugMachine, inputs: Mapping[str, Array], against: str | None) -> bool:
    """Dump a run to the folder `path`, compared with `against` if that is given; True unless a value differs."""
    with _new_folder(path) as folder:
        entries = dump(model, inputs, folder)
        differences = compare_dump(model_path, inputs, folder, entries, against) if against else []
        (folder / "steps.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False))
    click.echo(f"{path}: {sum(len(entry['values']) for entry in entries)} values of {len(entries)} operators")
    wrong = [difference for difference in differences if not difference.passed]
    if against:
        click.echo(f"{len(differences)} of them compared with {against}, {len(wrong)} differ")
    for difference in wrong[:10]:
        click.echo(difference.line())
    return not wrong
