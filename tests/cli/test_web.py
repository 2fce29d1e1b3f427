"""`tilewright compile --target wasm`: a folder of files, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Command


def test_a_folder_is_written(tilewright: Command, model: Path) -> None:
    folder = model.with_name("web")
    outcome = tilewright("compile", model, "-o", folder, "--target", "wasm")
    assert outcome.status == 0
    assert "a folder of index.html" in outcome.out and "model.relaxed.wasm: " in outcome.out
    assert (folder / "model.bin").stat().st_size > 0


def test_a_folder_for_webgpu_and_an_artifact(tilewright: Command, model: Path) -> None:
    folder = model.with_name("gpu")
    outcome = tilewright("compile", model, "-o", f"{folder}/", "--target", "webgpu")
    assert outcome.status == 0 and "model.webgpu.json: " in outcome.out and (folder / "model.mjs").is_file()
    outcome = tilewright("compile", model, "-o", folder.with_name("net.tw"), "--target", "webgpu")
    assert outcome.status == 0 and folder.with_name("net.tw").is_file()


@pytest.mark.parametrize(
    ("output", "more", "message"),
    [
        ("net.tw", [], "name a folder: -o web/"),
        ("web", ["--check"], "there is none of these on the web"),
    ],
)
def test_what_is_refused(output: str, more: list[str], message: str, model: Path, refused: Callable[..., str]) -> None:
    assert message in refused("compile", model, "-o", model.with_name(output), "--target", "wasm", *more)


def test_an_artifact_is_refused(artifact: Path, refused: Callable[..., str]) -> None:
    assert "name the model itself" in refused("compile", artifact, "-o", artifact.with_name("web"), "--target", "wasm")


@pytest.mark.parametrize("verb", ["run", "verify", "profile", "bench"])
def test_verbs_run_it_in_wasmtime_and_say_so(verb: str, tilewright: Command, model: Path) -> None:
    pytest.importorskip("wasmtime", reason="needs the package wasmtime")
    more = ["--seconds", "0.1"] if verb == "bench" else []
    outcome = tilewright(verb, model, "--target", "wasm", *more)
    assert outcome.status == 0 and "in wasmtime" in outcome.out


def test_an_engine_without_its_target_is_refused(model: Path, refused: Callable[..., str]) -> None:
    assert "add --target wasm or webgpu" in refused("run", model, "--engine", "node")
    assert "no engine of WebAssembly" in refused("run", model, "--engine", "deno", "--target", "wasm")
