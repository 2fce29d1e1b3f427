"""Registrations from outside of the package are part of the key of the disk cache, by their code."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.support import plugins
from tilewright.support.cache import SUBDIRECTORY

ROOT = Path(__file__).resolve().parents[2]
SCALE = 1


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_noted", [])


def told(what: Any) -> str | None:
    plugins._noted[:] = [("operator", "shrink", what)]
    return plugins.fingerprint()


def test_the_package_alone_has_no_fingerprint() -> None:
    assert plugins.fingerprint() == ""
    done = python("import tilewright.compile, tilewright.frontend.onnx; from tilewright.support import plugins", "")
    assert done == ["", "0"]


def python(first: str, second: str, *arguments: str, directory: Path | None = None) -> list[str]:
    """The report on a program: its fingerprint, and the number of notes it left."""
    program = f"{first}\n{second}\nprint(plugins.fingerprint()); print(len(plugins._noted))"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{directory or ''}"}
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines() if done.stdout.startswith("\n") else done.stdout.split()


def test_what_a_program_registers_is_noted_and_told_the_same_in_every_process() -> None:
    first = """
from tilewright.frontend.onnx.registry import converts
from tilewright.support import plugins
import numpy as np
TABLE = {"scale": np.arange(3), "names": {"a", "b"}, "pair": (1, (2, 3))}
class Shrink:
    by = 2.0
    def convert(self, node): return TABLE, np.dot, plugins
"""
    second = 'converts("Shrink", domain="mine")(lambda node: Shrink().convert(node))'
    before, again = python(first, second), python(first, second)
    assert before == again and before[1] == "1" and before[0]
    assert python(first.replace("2.0", "3.0"), second)[0] != before[0]
    assert python(first.replace("arange(3)", "arange(4)"), second)[0] != before[0]
    assert python(first.replace("np.dot", "np.add"), second)[0] != before[0]


def test_a_changed_module_is_another_plug_in(tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    use = "import mine; from tilewright.support import plugins"
    texts = ["SCALE = 2", "SCALE = 3"]
    found = set()
    for text in texts:
        module.write_text(
            f"from tilewright.frontend.onnx.registry import converts\n{text}\n"
            "@converts('Shrink', domain='mine')\ndef shrink(node): return SCALE\n"
        )
        found.add(python(use, "", directory=tmp_path)[0])
    assert len(found) == 2


def make(factor: int, **options: Any) -> Callable[[int], int]:
    def scaled(x: int, offset: int = options.get("offset", 0)) -> int:
        return x * factor + offset

    return scaled


def uses_global(x: int) -> int:
    return x * SCALE


def test_closures_defaults_globals_and_bound_objects_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(make(2)) == told(make(2)) != told(make(3))
    assert told(make(2, offset=1)) != told(make(2))
    assert told(functools.partial(make, 2)) != told(functools.partial(make, 3))
    before = told(uses_global)
    monkeypatch.setitem(globals(), "SCALE", 2)
    assert told(uses_global) != before
    assert told(np.arange(3)) == told(np.arange(3)) != told(np.arange(3.0))
    assert told([1, 2].append) != told([1, 3].append)
    assert told({"a": {1, 2}}) == told({"a": {2, 1}}) != told({"a": {1, 3}})


def complains(x: int) -> int:
    print(x, file=sys.stderr)
    return x


def test_what_the_interpreter_itself_holds_is_not_looked_into() -> None:
    assert told(complains) == told(complains) is not None


def test_what_refers_to_itself_is_told() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    assert told(ring) is not None


@pytest.mark.parametrize(
    "what", [threading.Lock(), (i for i in range(3)), sys.stdout], ids=["lock", "iterator", "file"]
)
def test_what_cannot_be_told_has_no_fingerprint(what: Any) -> None:
    assert told(what) is None


def test_a_changed_plug_in_is_not_served_from_the_cache(tmp_path: Path) -> None:
    """The same model file, a converter that scales by 2 and then by 3, an operator of its own that scales likewise."""
    program = textwrap.dedent("""
        import sys
        import numpy as np, onnx
        from onnx import TensorProto, helper
        import tilewright as tw
        from tilewright import relay
        from tilewright.frontend.onnx.registry import converts

        factor = float(sys.argv[1])

        @converts("Scale", domain="mine")
        def scale(node):
            return relay.multiply(node[0], relay.const(np.float32(factor)))

        info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (4,))
        node = helper.make_node("Scale", ["x"], ["y"], domain="mine")
        graph = helper.make_graph([node], "g", [info("x")], [info("y")])
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        print(tw.compile(model.SerializeToString())(np.ones(4, np.float32))[0])
    """)
    script = tmp_path / "plugin.py"
    script.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TILEWRIGHT_CACHE_DIR": str(tmp_path / "cache")}
    results = []
    for factor in ("2", "3", "2"):
        done = subprocess.run(
            [sys.executable, str(script), factor], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        results.append(float(done.stdout))
    assert results == [2, 3, 2]
    entries = list((tmp_path / "cache" / SUBDIRECTORY / "artifact").iterdir())
    assert len(entries) == 2, "the third run is served from the cache"
