"""`tvm.testing.plugin`, hooks for pytest: tests with a parameter `target` run on every enabled target.

    pytest_plugins = ["tvm.testing.plugin"]          in conftest.py

A test gets its targets unless `pytest.mark.parametrize` passes them, and `dev` is the device of its target. Fixtures of
one `tvm.testing.parameters` vary together.
"""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.compat.runtime.device import Device, device
from tilewright.compat.runtime.values import enabled
from tilewright.compat.testing.fixtures import CorrelatedSets, forget_cached
from tilewright.compat.testing.targets import MARKS, enabled_targets, target_params


def pytest_configure(config: Any) -> None:
    """Make the marks of `tvm.testing` known."""
    for name, meaning in MARKS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")


def pytest_generate_tests(metafunc: Any) -> None:
    """Parametrize a test by its targets and by the values of fixtures that vary together."""
    for sets, names, positions in _correlated(metafunc):
        values = [tuple(value_set[position] for position in positions) for value_set in sets.value_sets]
        metafunc.parametrize(names, values, indirect=True, ids=sets.ids)
    if "target" in metafunc.fixturenames and "target" not in _given(metafunc):
        function = metafunc.function
        owner = metafunc.cls
        excluded, failing = [
            [*getattr(owner, name, []), *getattr(function, name, [])]
            for name in ("tvm_excluded_targets", "tvm_known_failing_targets")
        ]
        targets = [target for target, _ in enabled_targets()]
        metafunc.parametrize("target", target_params(targets, failing, excluded), scope="session")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Skip tests on targets that nothing runs on here, where their own marks name such."""
    for item in items:
        target = getattr(item, "callspec", None) and item.callspec.params.get("target")
        if isinstance(target, str) and not enabled(target):
            item.add_marker(pytest.mark.skip(reason=f"nothing runs on {target} here"))


def _correlated(metafunc: Any) -> list[tuple[CorrelatedSets, list[str], list[int]]]:
    """The groups of `parameters` whose fixtures a test reads: the sets, the names of the fixtures, their positions."""
    groups: dict[CorrelatedSets, tuple[list[str], list[int]]] = {}
    given = _given(metafunc)
    for name, definitions in metafunc.definition._fixtureinfo.name2fixturedefs.items():
        found = getattr(definitions[-1].func, "correlated", None)
        if found is None or name in given:
            continue
        names, positions = groups.setdefault(found[0], ([], []))
        names.append(name)
        positions.append(found[1])
    return [(sets, *members) for sets, members in groups.items()]


def _given(metafunc: Any) -> set[str]:
    """The parameters of a test's own marks."""
    named: set[str] = set()
    for mark in metafunc.definition.iter_markers("parametrize"):
        names = mark.args[0] if mark.args else mark.kwargs["argnames"]
        named |= {name.strip() for name in (names.split(",") if isinstance(names, str) else names)}
    return named


def pytest_runtest_teardown(item: Any, nextitem: Any) -> None:
    """Drop what cached fixtures keep, after the last test of a file."""
    if nextitem is None or nextitem.path != item.path:
        forget_cached()


@pytest.fixture
def dev(target: Any) -> Device:
    """The device of the test's target."""
    return device(str(target))
