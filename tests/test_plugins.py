"""Plug-ins by entry points: a package of its own, made into a wheel here and installed into a fresh environment."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import textwrap
import venv
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[1]

ENTRY_POINTS = """\
[tilewright.operators]
mine = mine.operators

[tilewright.converters]
mine = mine.converters

[tilewright.passes]
mine = mine.passes:add

[tilewright.frontends]
mine = mine.format:MineFrontend
"""
SOURCES = {
    "__init__": "",
    "figures": "FACTOR = 2.0\n",
    "operators": """
        import numpy as np
        from tilewright import te
        from tilewright.relay.ir.registry import OpPattern, register
        from tilewright.relay.op.common import one, same_as_input
        from tilewright.runtime.host_ops.registry import host_op

        register(
            "mine.negate",
            num_inputs=1,
            type_rule=same_as_input,
            compute=one(lambda x: te.compute(x.shape, lambda *i: -x(*i), "negate")),
            pattern=OpPattern.ELEMWISE,
            reference=lambda attrs, x: -x,
        )

        @host_op("mine.turn")
        def turn(attrs, x):
            return np.ascontiguousarray(x[::-1])
        """,
    "converters": """
        import numpy as np
        from tilewright import relay
        from tilewright.frontend.onnx.registry import converts
        from tilewright.relay.ir.expr import Call
        from tilewright.relay.ir.registry import get
        from mine.figures import FACTOR

        @converts("Scale", domain="mine")
        def scale(node):
            return relay.multiply(Call(get("mine.negate"), (node[0],)), relay.const(np.float32(-FACTOR)))
        """,
    "passes": """
        import sys
        from tilewright.relay.transform.manager.added_passes import add_graph_pass

        def tell(mod, target):
            print("pass told", target.architecture, file=sys.stderr)
            return mod

        def add():
            add_graph_pass(tell, after="simplify_expr")
        """,
    "format": """
        import numpy as np
        from pathlib import Path
        from tilewright import relay
        from tilewright.frontend.inputs import Declared, resolve_inputs
        from tilewright.frontend.interface import Frontend
        from tilewright.support.dtype import DType

        class MineFrontend(Frontend):
            name = "mine"
            kind = "a model of mine"

            def recognizes(self, source):
                return bytes(source.contents[:4]) == b"MINE"

            def convert(self, model, input_shapes):
                offset = np.float32(Path(model).read_bytes()[4])
                specs = resolve_inputs([Declared("x", ("n",), DType("float32"))], input_shapes)
                x = relay.var("x", specs[0].type)
                main = relay.Function([x], relay.add(x, relay.const(offset)), attrs={"output_names": ("y",)})
                return relay.IRModule.from_expr(main), specs
        """,
}


def wheel(folder: Path, sources: dict[str, str], entry_points: str = ENTRY_POINTS) -> Path:
    """A wheel of the package `mine`, always of one version."""
    files = {f"mine/{name}.py": textwrap.dedent(text) for name, text in sources.items()}
    info = "mine-1.0.dist-info"
    files |= {
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": entry_points,
    }
    rows = []
    for name, text in files.items():
        mark = urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        rows.append(f"{name},sha256={mark},{len(text.encode())}")
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,"]) + "\n"
    path = folder / "mine-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


class Environment:
    """A virtual environment that sees the packages of this one, and the plug-in that is installed into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "env", with_pip=False, symlinks=True)
        (self.site,) = (folder / "env" / "lib").glob("python*/site-packages")
        self.python = folder / "env" / "bin" / "python"

    def install(self, **changed: str) -> None:
        """Unpack the wheel, as installers do; the times of its files stay, so that only contents tell it changed."""
        with zipfile.ZipFile(wheel(self.folder, {**SOURCES, **changed})) as archive:
            archive.extractall(self.site)
        for path in self.site.rglob("*.py"):
            os.utime(path, (1_600_000_000, 1_600_000_000))

    def run(
        self, program: str, *arguments: object, status: int = 0, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        packages = os.pathsep.join([str(ROOT / "src"), *[path for path in sys.path if path.endswith("-packages")]])
        environment = {
            **os.environ,
            "PYTHONPATH": packages,
            "PYTHONDONTWRITEBYTECODE": "1",
            "TILEWRIGHT_CACHE_DIR": str(self.folder / "cache"),
            **variables,
        }
        command = [str(self.python), *(["-c", textwrap.dedent(program)] if program else ["-m", "tilewright.cli.main"])]
        done = subprocess.run(
            [*command, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("plugins"))


@pytest.fixture
def scaled(tmp_path: Path) -> Path:
    """An ONNX model whose operator only the plug-in knows."""
    info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, (4,))  # noqa: E731
    node = helper.make_node("Scale", ["x"], ["y"], domain="mine")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    graph = helper.make_graph([node], "g", [info("x")], [info("y")])
    path = tmp_path / "scaled.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


RUN = """
    import sys
    import numpy as np
    import tilewright as tw
    print(*tw.compile(sys.argv[1])(np.arange(4, dtype=np.float32)).tolist())
"""


def numbers(done: subprocess.CompletedProcess[str]) -> list[float]:
    return [float(word) for word in done.stdout.split()]


def test_a_changed_plug_in_compiles_anew_and_an_unchanged_one_does_not(environment: Environment, scaled: Path) -> None:
    """The figure that changes stands in a module that no entry point names; version, size and times stay."""
    environment.install()
    first = environment.run(RUN, scaled)
    assert numbers(first) == [0, 2, 4, 6] and "pass told" in first.stderr
    again = environment.run(RUN, scaled)
    assert numbers(again) == [0, 2, 4, 6] and "pass told" not in again.stderr, "served from the cache"
    environment.install(figures="FACTOR = 3.0\n")
    assert numbers(environment.run(RUN, scaled)) == [0, 3, 6, 9]


def test_a_format_from_outside_is_told_by_its_contents(environment: Environment, tmp_path: Path) -> None:
    environment.install()
    path = tmp_path / "model.onnx"
    path.write_bytes(b"MINE\x05")
    assert numbers(environment.run(RUN, path)) == [5, 6, 7, 8]
    shown = environment.run("", "inspect", path, "--stage", "tell")
    assert "add(" in shown.stdout and "pass told" in shown.stderr
    other = tmp_path / "other"
    other.write_text("neither")
    refused = environment.run("", "inspect", other, "--stage", "relay", status=2)
    assert "an ONNX model" in refused.stderr and "a model of mine" in refused.stderr


def test_an_operator_from_outside_is_found_when_its_name_is_met(environment: Environment) -> None:
    environment.install()
    program = """
        import numpy as np
        from tilewright.runtime.host_ops.registry import HOST_OPS, find
        assert "mine.turn" not in HOST_OPS
        print(*find("mine.turn", {})(np.arange(3)).tolist())
    """
    assert numbers(environment.run(program)) == [2, 1, 0]


def test_plug_ins_can_be_switched_off(environment: Environment, scaled: Path) -> None:
    environment.install()
    done = environment.run(RUN, scaled, status=1, TILEWRIGHT_PLUGINS="0")
    assert "no converter for this operator" in done.stderr


def test_a_plug_in_that_fails_names_its_package(environment: Environment, scaled: Path) -> None:
    environment.install(converters="raise ValueError('out of order')\n")
    done = environment.run("", "inspect", scaled, "--stage", "relay", status=2)
    assert "'mine' (tilewright.converters: mine.converters) of mine 1.0 cannot be loaded: ValueError" in done.stderr
    assert "out of order" in done.stderr and "TILEWRIGHT_PLUGINS=0" in done.stderr


def test_a_fault_in_a_plug_in_is_told_as_its_own(environment: Environment, scaled: Path) -> None:
    environment.install(passes=SOURCES["passes"].replace("return mod", "return mod.nothing_like_it"))
    done = environment.run("", "run", scaled, "--no-cache", status=2)
    assert "error: the plug-in mine 1.0 failed (mine/passes.py, line " in done.stderr
    assert "in tell): AttributeError" in done.stderr and "internal error" not in done.stderr


@pytest.mark.parametrize("module", ["converters", "passes"])
def test_a_plug_in_cannot_end_the_process(module: str, environment: Environment, scaled: Path) -> None:
    changed = {
        "passes": ("return mod", "sys.exit(7)"),
        "converters": ("from mine.figures", "import sys; sys.exit(7) #"),
    }
    environment.install(**{module: SOURCES[module].replace(*changed[module])})
    done = environment.run("", "run", scaled, "--no-cache", status=2)
    assert "mine 1.0" in done.stderr and "SystemExit: 7" in done.stderr


@pytest.mark.parametrize("returned, told", [("xs[0]", "a Tensor"), ("[]", "a list of []")])
def test_an_operator_whose_compute_returns_no_list_of_its_results_is_named(
    returned: str, told: str, environment: Environment, scaled: Path
) -> None:
    changed = re.sub(r"one\(lambda x: te.compute\(.*\)", f"lambda attrs, xs, out: {returned}", SOURCES["operators"])
    environment.install(operators=changed)
    done = environment.run("", "run", scaled, "--no-cache", status=2)
    assert f"operator mine.negate returns {told}; it has to return a list of tensors, one for each" in done.stderr


def test_the_format_of_the_docs_is_complete(environment: Environment, tmp_path: Path) -> None:
    """The plug-in that docs/plugins.md prints, as it stands there."""
    page = (ROOT / "docs" / "plugins.md").read_text()
    program = page.split("```python\n# mine/format.py\n", 1)[1].split("```", 1)[0]
    assert program.count("\n") <= 25
    environment.install(format=program)
    path = tmp_path / "model"
    path.write_bytes(b"MINE\x05")
    assert numbers(environment.run(RUN, path)) == [5, 6, 7, 8]
    assert "ok" in environment.run("", "verify", path, "--input-shapes", "x:[3]").stdout


def test_a_pass_is_added_behind_another_and_may_be_switched_off() -> None:
    from tilewright.errors import UnsupportedError
    from tilewright.relay.transform.manager import added_passes
    from tilewright.relay.transform.manager.graph_pass import GraphPass

    keep = lambda mod, target: mod  # noqa: E731
    saved = dict(added_passes._ADDED)
    try:
        added_passes._ADDED.clear()
        for name, after in (("first", "a"), ("second", "a"), ("third", "first")):
            added_passes.add_graph_pass(keep, after=after, name=name, opt_level=2)
        passes = added_passes.with_added_passes([GraphPass("a", 0, "", keep), GraphPass("b", 0, "", keep)])
        names = [one.name for one in passes]
        assert names == ["a", "first", "third", "second", "b"]
        assert [one.level for one in passes] == [0, 2, 2, 2, 0]
        with pytest.raises(UnsupportedError, match="added twice"):
            added_passes.add_graph_pass(keep, after="a", name="first")
        with pytest.raises(UnsupportedError, match=r"'first' is to run after 'a', which is unknown; did you mean 'aa'"):
            added_passes.with_added_passes([GraphPass("aa", 0, "", keep)])
    finally:
        added_passes._ADDED.clear()
        added_passes._ADDED.update(saved)
