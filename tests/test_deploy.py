"""The files of deploy/: they parse, and name options, extras and files that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli.serve import serve_command

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"


def _check_options(words: list[str]) -> None:
    """Hold a command of `tilewright serve` against its verb."""
    verb = serve_command.commands[words[0]]  # type: ignore[attr-defined]
    known = {name for option in verb.params for name in option.opts}
    assert {word for word in words if word.startswith("--")} <= known, words


def _yaml(path: Path) -> list[Any]:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return list(yaml.safe_load_all(path.read_text()))


def test_the_image_installs_extras_that_there_are() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    (named,) = re.findall(r'"\.\[([\w,]+)\]"', text)
    assert set(named.split(",")) <= extras.keys()
    for copied in re.findall(r"^COPY ((?:[\w./]+ )+)\./", text, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split())
    (command,) = re.findall(r"^CMD \[(.*)\]$", text, re.MULTILINE)
    _check_options([word.strip('" ') for word in command.split(",")])


def test_compose_runs_the_service_a_worker_and_a_database() -> None:
    (found,) = _yaml(DEPLOY / "compose.yaml")
    assert found["services"].keys() == {"service", "worker", "database"}
    for name in ("service", "worker"):
        _check_options(found["services"][name]["command"])
        assert found["services"][name]["depends_on"] == {"database": {"condition": "service_healthy"}}


def test_manifests_fit_together() -> None:
    folder = DEPLOY / "kubernetes"
    (root,) = _yaml(folder / "kustomization.yaml")
    found = [one for name in root["resources"] for one in _yaml(folder / name)]
    assert sorted(one["kind"] for one in found) == ["Deployment", "Deployment", "PersistentVolumeClaim", "Service"]
    for one in found:
        if one["kind"] != "Deployment":
            continue
        pod = one["spec"]["template"]
        assert one["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
        for container in pod["spec"]["containers"]:
            _check_options(container["args"])


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_builds_the_manifests() -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("kind: Deployment") == 2
