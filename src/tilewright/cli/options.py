"""Options and argument types that several verbs share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from tilewright.errors import InputError, ModelError, ShapeError
from tilewright.runtime.executor import Executable

_SHAPE = re.compile(r"\s*(?P<name>[^\[\]]+?)\s*:\s*\[(?P<dims>[^\[\]]*)\]\s*(?:,|$)")


def parse_shapes(text: str | None) -> dict[str, tuple[int, ...]] | None:
    """`"x:[1,3,224,224],y:[1]"` as a dict; names may hold colons. Raises ShapeError with the expected form."""
    if not text:
        return None
    shapes: dict[str, tuple[int, ...]] = {}
    position = 0
    while position < len(text):
        found = _SHAPE.match(text, position)
        dims = [d.strip() for d in found["dims"].split(",")] if found and found["dims"].strip() else []
        if found is None or not all(d.isdigit() for d in dims):
            raise ShapeError(f'--input-shapes {text!r} is not understood; write it as "x:[1,3,224,224],y:[1]"')
        shapes[found["name"]] = tuple(int(d) for d in dims)
        position = found.end()
    return shapes


def parse_inputs(pairs: tuple[str, ...]) -> dict[str, Path]:
    """`("x=a.npy", ...)` as a dict from input name to file."""
    files = {}
    for pair in pairs:
        name, separator, path = pair.rpartition("=")
        if not separator or not name:
            raise InputError(f"--input {pair!r} is not understood; write it as NAME=FILE.npy")
        files[name] = Path(path)
    return files


def model_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every verb that compiles a model."""
    for option in reversed(
        (
            click.option("--target", default="cpu", show_default=True, help="what to compile for"),
            click.option("--input-shapes", "shapes", help='fixes dynamic dimensions, e.g. "x:[1,3,224,224]"'),
            click.option("--threads", type=click.IntRange(min=1), help="worker threads [default: what the process may use]"),
            click.option("--no-cache", is_flag=True, help="compile afresh and do not write to the cache"),
        )
    ):
        command = option(command)
    return command


def load_or_compile(path: str, target: str, shapes: str | None, threads: int | None, no_cache: bool) -> Executable:
    """The executable of a saved artifact, or of a model compiled (or found in the cache) now."""
    from tilewright.runtime.artifact import is_artifact

    if not Path(path).is_file():
        raise ModelError(f"{path}: there is no such file")
    if is_artifact(path):
        from tilewright.runtime.executor import load

        return load(path, threads=threads)
    from tilewright.compile import compile

    return compile(path, target=target, input_shapes=parse_shapes(shapes), threads=threads, cache=not no_cache)
