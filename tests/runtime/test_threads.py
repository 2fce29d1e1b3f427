"""The default number of workers, from made-up /proc and /sys trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.errors import EnvironmentError_, InputError
from tilewright.runtime import threads
from tilewright.runtime.threads import available_processors, cgroup_quota, default_workers


@pytest.fixture(autouse=True)
def eight_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_affinity", lambda: 8)
    for name in ("TILEWRIGHT_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)


def tree(root: Path, **files: str) -> Path:
    """Write files; in names, ``__`` stands for a directory separator and ``_dot_`` for a dot."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_no_cgroup_files(tmp_path: Path) -> None:
    assert cgroup_quota(tmp_path) is None
    assert available_processors(tmp_path) == default_workers(root=tmp_path) == 8


def test_v2_quota_and_the_tightest_ancestor(tmp_path: Path) -> None:
    tree(
        tmp_path,
        proc__self__cgroup="0::/pods/one\n",
        sys__fs__cgroup__cpu_dot_max="max 100000\n",
        sys__fs__cgroup__pods__cpu_dot_max="250000 100000\n",
        sys__fs__cgroup__pods__one__cpu_dot_max="600000 100000\n",
    )
    assert cgroup_quota(tmp_path) == 2.5
    assert available_processors(tmp_path) == 3


def test_v2_inside_a_container_sees_its_own_mount(tmp_path: Path) -> None:
    tree(tmp_path, proc__self__cgroup="0::/host/path/unseen\n", sys__fs__cgroup__cpu_dot_max="50000 100000\n")
    assert cgroup_quota(tmp_path) == 0.5
    assert default_workers(root=tmp_path) == 1


@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
def test_a_quota_of_cgroups_v1_bounds_the_workers(tmp_path: Path, mount: str) -> None:
    tree(tmp_path, proc__self__cgroup="5:memory:/x\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n")
    group = tmp_path / "sys/fs/cgroup" / mount / "docker/abc"
    tree(group, cpu_dot_cfs_quota_us="400000\n", cpu_dot_cfs_period_us="100000\n")
    tree(group.parent, cpu_dot_cfs_quota_us="-1\n", cpu_dot_cfs_period_us="100000\n")
    assert cgroup_quota(tmp_path) == 4


@pytest.mark.parametrize("text", ["", "max", "banana 100000", "100000 0", "-1 100000", "\xff"])
def test_unreadable_quotas_are_no_quota(tmp_path: Path, text: str) -> None:
    tree(tmp_path, proc__self__cgroup="0::/\n", sys__fs__cgroup__cpu_dot_max=text)
    assert cgroup_quota(tmp_path) is None


def test_arguments_precede_variables_and_those_the_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, proc__self__cgroup="0::/\n", sys__fs__cgroup__cpu_dot_max="400000 100000")
    assert default_workers(root=tmp_path) == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert default_workers(root=tmp_path) == 2
    monkeypatch.setenv("OMP_NUM_THREADS", "64")
    assert default_workers(root=tmp_path) == 4
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "6")
    assert default_workers(root=tmp_path) == 6
    assert default_workers(16, root=tmp_path) == 16
    assert default_workers(10_000, root=tmp_path) == 256


def test_bad_numbers_of_threads_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "many")
    with pytest.raises(EnvironmentError_, match="TILEWRIGHT_NUM_THREADS='many' is not valid: expected an integer of"):
        default_workers()
    for bad in (0, -2, 1.5, "2", True):
        with pytest.raises(InputError, match="the number of threads must be an integer"):
            default_workers(bad)  # type: ignore[arg-type]


def test_this_machine_has_a_processor() -> None:
    assert available_processors() >= 1
