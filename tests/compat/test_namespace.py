"""Namespaces from tables: every entry leads somewhere, and what is not there says so."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tilewright import compat
from tilewright.compat.namespace import find, public_names, resolve
from tilewright.compat.tables import TABLES
from tilewright.errors import UnsupportedError

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_entry_of_every_table_leads_somewhere(name: str) -> None:
    table = TABLES[name]
    for target in table.names.values():
        assert resolve(target) is not None
    for public in public_names(table):
        assert find(table, public) is not None
    assert importlib.import_module(name).__doc__ == table.doc


def test_no_name_is_both_there_and_absent() -> None:
    assert not [(t.name, name) for t in TABLES.values() for name in t.absent if name in t.names]


def test_names_are_this_package_s_own_objects() -> None:
    import tvm
    from tvm import relay
    from tvm.relay.op.nn import conv3d

    from tilewright import relay as own

    assert relay is tvm.relay
    assert relay.Call is own.Call and relay.expr.Call is own.Call
    assert conv3d is own.nn.conv3d and relay.nn.conv3d is conv3d
    assert "conv3d" in dir(relay.nn)


def test_what_is_not_there_names_the_nearest_or_the_replacement() -> None:
    import tvm
    from tvm import relay

    with pytest.raises(
        AttributeError, match=r"tvm.relay.reshap is not part of tilewright.compat; did you mean .*'reshape'"
    ):
        _ = relay.reshap
    with pytest.raises(UnsupportedError, match=r"TypeRelation is not part .* type rules are functions of an operator"):
        relay.TypeRelation(None, [], 0, None)
    assert not hasattr(tvm, "no_such_thing")
    with pytest.raises(ImportError, match=r"tvm.no_such_package is not part of tilewright.compat"):
        importlib.import_module("tvm.no_such_package")


def test_uninstalling_makes_tvm_unknown_again() -> None:
    compat.uninstall()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tvm")


def test_a_script_runs_unmodified(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("NAME = 'tanh'\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nfrom tvm import relay\nfrom helper import NAME\n"
        "x = relay.var('x', shape=(2,))\nprint(sys.argv[1:], getattr(relay, NAME)(x).op.name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.compat", str(script), "--flag"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['--flag'] tanh"


@pytest.mark.parametrize(("arguments", "message"), [([], "usage:"), (["nowhere.py"], "there is no such file")])
def test_a_missing_script_is_named(arguments: list[str], message: str) -> None:
    done = subprocess.run([sys.executable, "-m", "tilewright.compat", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and message in done.stderr


def test_the_coverage_report_counts_uses(tmp_path: Path) -> None:
    table = tmp_path / "names.tsv"
    table.write_text("tier\tname\tuses\tfiles\ncore\ttvm.relay.var\t3\t1\ncore\ttvm.relay.nowhere\t1\t1\n")
    script = ROOT / "scripts" / "compat_report.py"
    done = subprocess.run([sys.executable, str(script), str(table), "--print"], capture_output=True, text=True)
    assert "| `tvm.relay` | core | 2 | 1 | 4 | 3 (75.0%) |" in done.stdout
    assert "`tvm.relay.nowhere` (1)" in done.stdout


def test_names_that_may_be_imported_but_not_used() -> None:
    from tvm.autotvm import register_topi_compute as mine
    from tvm.topi.cuda.conv3d_winograd import _infer_tile_size

    assert "not part of" in repr(mine) and mine.__name__ == "tvm.autotvm.register_topi_compute"
    for use in (lambda: _infer_tile_size({}, None), lambda: mine.key, lambda: mine["grid"]):
        with pytest.raises(UnsupportedError, match=r"is not part of tilewright.compat; (templates|operators)"):
            use()
    with pytest.raises(UnsupportedError, match=r"autotvm.register_topi_compute"), mine:
        pass
    with pytest.raises(UnsupportedError, match=r"autotvm.register_topi_compute"):
        types.new_class("Own", (mine,))


def test_a_function_stays_when_a_module_of_its_name_is_imported() -> None:
    from tvm import topi
    from tvm.topi.nn.conv2d import _get_workload, conv2d

    assert topi.nn.conv2d is conv2d and callable(_get_workload)
