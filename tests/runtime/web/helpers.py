"""Models compiled for the web, and their files run in Node."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.runtime.web.model import WebModel

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs node")


def compiled(model: Any, target: str = "wasm", **options: Any) -> WebModel:
    made = tw.compile(model, target=target, cache=False, **options)
    assert isinstance(made, WebModel)
    return made


def in_node(folder: Path, script: str, *flags: str) -> str:
    """The text that a script prints, which imports the model's files."""
    (folder / "script.mjs").write_text(f'import {{ load, TilewrightError }} from "./model.mjs";\n{script}')
    done = subprocess.run([NODE or "", *flags, "script.mjs"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
