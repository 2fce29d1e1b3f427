"""One test for each error a user can make: one message that says what to do, status 2, nothing half-written."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from tests.cli.conftest import Command
from tests.onnx_models import convolution, perceptron, saved, unknown_operator
from tilewright.cli.main import INTERNAL_ERROR_STATUS
from tilewright.errors import InternalError

Refused = Callable[..., str]


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The file that a failing command would have written."""
    return tmp_path / "out.tw"


def npy(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


@pytest.mark.parametrize("verb", ["run", "profile", "bench", "verify", "inspect"])
def test_no_such_file(verb: str, refused: Refused, tmp_path: Path) -> None:
    assert refused(verb, tmp_path / "absent.onnx") == f"{tmp_path / 'absent.onnx'}: there is no such file"


def test_a_directory_instead_of_a_model(refused: Refused, tmp_path: Path) -> None:
    assert "is a directory" in refused("run", tmp_path)


def test_not_a_model(refused: Refused, tmp_path: Path, output: Path) -> None:
    path = tmp_path / "notes.onnx"
    path.write_text("shopping: bread, milk, eggs\n")
    assert re.search(r"notes\.onnx \(28 bytes\) is not an ONNX model", refused("compile", path, "-o", output))


def test_an_empty_file(refused: Refused, tmp_path: Path, output: Path) -> None:
    path = tmp_path / "empty.onnx"
    path.write_bytes(b"")
    assert "empty.onnx is empty; it is not an ONNX model" in refused("compile", path, "-o", output)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_truncated_model(part: float, refused: Refused, model: Path, output: Path) -> None:
    contents = model.read_bytes()
    model.write_bytes(contents[: int(len(contents) * part)])
    assert re.search(r"truncated or damaged", refused("compile", model, "-o", output))


def damaged(contents: bytes, generator: np.random.Generator) -> bytes:
    """`contents` cut short, or with a few bytes changed."""
    if generator.random() < 0.3:
        return contents[: generator.integers(len(contents))]
    data = np.frombuffer(contents, np.uint8).copy()
    count = generator.integers(1, 6)
    data[generator.integers(len(data), size=count)] = generator.integers(256, size=count)
    return data.tobytes()


@pytest.mark.parametrize("seed", range(150))
def test_damage_anywhere_in_a_model_is_no_internal_error(seed: int, tilewright: Command, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    source = (perceptron() if seed % 2 else convolution()).SerializeToString()
    path = tmp_path / "damaged.onnx"
    path.write_bytes(damaged(source, generator))
    outcome = tilewright("inspect", path, "--stage", "fused")
    assert outcome.status in (0, 2), outcome.err
    assert outcome.err.count("error: ") == (outcome.status == 2)


@pytest.mark.parametrize("seed", range(60))
def test_damage_anywhere_in_an_artifact_is_no_internal_error(seed: int, tilewright: Command, artifact: Path) -> None:
    artifact.write_bytes(damaged(artifact.read_bytes(), np.random.default_rng(seed)))
    outcome = tilewright("inspect", artifact)
    assert outcome.status in (0, 2), outcome.err
    assert outcome.err.count("error: ") == (outcome.status == 2)


def test_an_unknown_operator_names_node_operator_and_opset(refused: Refused, tmp_path: Path, output: Path) -> None:
    message = refused("compile", saved(unknown_operator(), tmp_path / "odd.onnx"), "-o", output)
    assert "the_odd_one" in message and "Frobnicate" in message and re.search(r"opset 17|version 17", message)


@pytest.mark.parametrize("verb", ["run", "verify", "bench", "profile"])
def test_random_inputs_need_a_shape(verb: str, refused: Refused, tmp_path: Path) -> None:
    message = refused(verb, saved(perceptron(rows="batch"), tmp_path / "dynamic.onnx"))
    assert "'x'" in message and "batch" in message and '--input-shapes "x:[1,8]"' in message


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ("x:[1,9]", r"extent 9 at axis 1, which the model fixes to 8"),
        ("x:[8]", r"has 1 dimensions, but the model declares 2"),
        ("x:[0,8]", r"extent 0 at axis 0, which the model fixes to 1"),
        ("z:[1,8]", r"no input named 'z'.*'x'"),
        ("x=1,8", r"is not understood; write it as \"x:\[1,3,224,224\]"),
        ("x:[1,-8]", r"is not understood"),
    ],
)
def test_a_wrong_shape(shapes: str, expected: str, refused: Refused, model: Path, output: Path) -> None:
    assert re.search(expected, refused("compile", model, "-o", output, "--input-shapes", shapes))


def test_an_input_of_the_wrong_shape(refused: Refused, model: Path, tmp_path: Path) -> None:
    wrong = npy(tmp_path / "x.npy", np.zeros((2, 8), np.float32))
    message = refused("run", model, "--no-cache", "--input", f"x={wrong}", "--output", tmp_path / "y.npz")
    assert "wrong shape: float32[2, 8] given, float32[1, 8] expected" in message


@pytest.mark.parametrize("verb", ["run", "verify"])
def test_an_input_of_the_wrong_dtype(verb: str, refused: Refused, model: Path, tmp_path: Path) -> None:
    wrong = npy(tmp_path / "x.npy", np.zeros((1, 8), np.float64))
    message = refused(verb, model, "--input", f"x={wrong}")
    assert "input 'x' has the wrong dtype: float64[1, 8] given, float32[1, 8] expected" in message


@pytest.mark.parametrize("verb", ["run", "verify"])
def test_a_wrong_input_name(verb: str, refused: Refused, model: Path, tmp_path: Path) -> None:
    array = npy(tmp_path / "x.npy", np.zeros((1, 8), np.float32))
    message = refused(verb, model, "--input", f"image={array}")
    assert message == "the model has no input 'image'; its inputs are: x: float32[1, 8]"


def test_an_input_given_twice_or_without_a_name(refused: Refused, model: Path, tmp_path: Path) -> None:
    array = npy(tmp_path / "x.npy", np.zeros((1, 8), np.float32))
    assert "sets 'x' twice" in refused("run", model, "--input", f"x={array}", "--input", "x=b.npy")
    assert "write it as NAME=FILE.npy" in refused("run", model, "--input", str(array))


@pytest.mark.parametrize("contents", [b"", b"\x93NUMPY", b"1,2,3\n", b"PK\x03\x04 not an array"])
def test_an_unreadable_npy(contents: bytes, refused: Refused, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(contents)
    assert re.match(
        rf"input 'x': {path} cannot be read as a \.npy file \(", refused("run", model, "--input", f"x={path}")
    )


def test_a_truncated_and_a_pickled_npy(refused: Refused, model: Path, tmp_path: Path) -> None:
    path = npy(tmp_path / "x.npy", np.zeros((1, 8), np.float32))
    path.write_bytes(path.read_bytes()[:-4])
    assert "cannot be read" in refused("run", model, "--input", f"x={path}")
    np.save(path, np.array([{}]), allow_pickle=True)
    assert "cannot be read" in refused("run", model, "--input", f"x={path}")


def test_an_absent_npy(refused: Refused, model: Path, tmp_path: Path) -> None:
    message = refused("run", model, "--input", f"x={tmp_path / 'absent.npy'}")
    assert "absent.npy cannot be read as a .npy file (No such file or directory)" in message


@pytest.mark.parametrize("verb", ["run", "inspect"])
def test_an_unknown_target(verb: str, refused: Refused, model: Path) -> None:
    message = refused(verb, model, "--target", "abacus")
    assert "abacus" in message and "cpu" in message


def test_a_corrupt_artifact(refused: Refused, artifact: Path) -> None:
    contents = bytearray(artifact.read_bytes())
    contents[200] ^= 0xFF
    artifact.write_bytes(bytes(contents))
    message = refused("run", artifact)
    assert message == f"{artifact} is damaged: its checksum does not match. Compile the model again"


@pytest.mark.parametrize("kept", [40, 300, -1])
def test_a_truncated_artifact(kept: int, refused: Refused, artifact: Path) -> None:
    artifact.write_bytes(artifact.read_bytes()[:kept])
    assert re.search(
        r"is truncated: it (ends within its header|has \d+ bytes, its header says \d+)", refused("run", artifact)
    )


@pytest.mark.parametrize(("option", "value"), [("--target", "cpu"), ("--input-shapes", "x:[2,8]")])
def test_an_artifact_cannot_be_recompiled(option: str, value: str, refused: Refused, artifact: Path) -> None:
    assert f"leave out {option}" in refused("run", artifact, option, value)


@pytest.mark.parametrize("command", [["verify"], ["bench", "--compare", "onnxruntime"]])
def test_an_artifact_cannot_be_compared(command: list[str], refused: Refused, artifact: Path) -> None:
    assert "which other engines cannot read; name the ONNX model to" in refused(*command, artifact)


def test_an_artifact_has_no_stages(refused: Refused, artifact: Path) -> None:
    assert "has a manifest, and no stage 'tir'" in refused("inspect", artifact, "--stage", "tir")


def test_the_cache_directory_is_not_writable(
    refused: Refused, model: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A directory below a regular file can be made by nobody, root included.
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(model / "cache"))
    message = refused("compile", model, "-o", output)
    assert f"cache directory {model / 'cache'}" in message and "TILEWRIGHT_CACHE=0" in message


def test_a_knob_that_does_not_parse(refused: Refused, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_NUM_THREADS", "many")
    message = refused("run", model)
    assert (
        message == "environment variable TILEWRIGHT_NUM_THREADS='many' is not valid: expected an integer of at least 1"
    )


@pytest.mark.parametrize(
    ("verb", "option", "name"),
    [
        ("compile", "-o", "m.tw"),
        ("compile", "-o", "m.so"),
        ("run", "--output", "y.npz"),
        ("bench", "--json", "t.json"),
        ("profile", "--report", "r.html"),
    ],
)
def test_an_output_that_cannot_be_written(
    verb: str, option: str, name: str, refused: Refused, model: Path, tmp_path: Path
) -> None:
    below_a_file, in_nothing = model / name, tmp_path / "absent" / name
    assert f"cannot write {below_a_file}: Not a directory" in refused(verb, model, option, below_a_file)
    assert f"cannot write {in_nothing}: No such file or directory" in refused(verb, model, option, in_nothing)
    assert f"cannot write {tmp_path}: it is a directory" in refused(verb, model, option, tmp_path)


def test_the_output_may_not_be_the_model(refused: Refused, model: Path) -> None:
    before = model.read_bytes()
    assert "it is the model that is being read" in refused("compile", model, "-o", model)
    assert model.read_bytes() == before


@pytest.mark.parametrize(("verb", "option"), [("bench", "--compare"), ("verify", "--against")])
def test_an_unknown_engine(verb: str, option: str, refused: Refused, model: Path) -> None:
    message = refused(verb, model, option, "abacus")
    assert (
        message
        == "there is no engine 'abacus' to compare with; known: onnxruntime, onnxruntime-gpu, openvino, reference"
    )


def test_a_missing_engine(refused: Refused, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "onnxruntime is not installed; `pip install tilewright[compare]`" in refused("verify", model)


def test_an_engine_that_does_not_take_the_model(refused: Refused, tmp_path: Path) -> None:
    model = perceptron()
    model.ir_version = 999  # of no importance here, but onnxruntime refuses it
    assert re.search(
        r"onnxruntime does not load .*future\.onnx", refused("verify", saved(model, tmp_path / "future.onnx"))
    )


def test_an_unknown_stage(refused: Refused, model: Path) -> None:
    message = refused("inspect", model, "--stage", "magic")
    assert message.startswith("there is no stage 'magic'; known: relay, infer_type, ")


@pytest.mark.parametrize("stage", ["plan", "tir", "asm"])
def test_an_unknown_kernel(stage: str, refused: Refused, model: Path) -> None:
    message = refused("inspect", model, "--stage", stage, "--kernel", "magic")
    assert message.startswith("no kernel or source node is called 'magic'; the kernels are: fused_")


@pytest.mark.parametrize(
    "arguments", [["frob"], ["run"], ["run", "m.onnx", "--threads", "0"], ["bench", "m.onnx", "--rounds", "x"]]
)
def test_wrong_usage_prints_how_to_call_it(arguments: list[str], tilewright: Command) -> None:
    outcome = tilewright(*arguments)
    assert outcome.status == 2 and outcome.out == ""
    assert outcome.err.startswith("Usage: tilewright") and outcome.err.count("Error: ") == 1


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["verfy", "m.onnx"], "there is no verb 'verfy'; did you mean 'verify'?"),
        (["profiel"], "did you mean 'profile'?"),
        (
            ["xyzzy"],
            "there are: compile, run, bench, verify, bisect, inspect, quantize, train-export, tune, records, profile, "
            "keygen, sign, rpc, serve, vta, cache, doctor",
        ),
        (["run", "m.onnx", "--sede", "1"], "--seed"),
        (["bench", "m.onnx", "--compair", "onnxruntime"], "--compare"),
        (["compile", "m.onnx", "--outptu", "x"], "--output"),
    ],
)
def test_what_was_meant(arguments: list[str], meant: str, tilewright: Command) -> None:
    outcome = tilewright(*arguments)
    assert outcome.status == 2 and outcome.out == "" and meant in outcome.err


def test_words_are_completed() -> None:
    def completed(words: str, number: int) -> list[str]:
        variables = {"_TILEWRIGHT_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(number)}
        program = "from tilewright.cli.main import cli; cli(prog_name='tilewright')"
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, **variables}
        )
        return [line.split(",")[1] for line in done.stdout.splitlines()]

    assert completed("tilewright ver", 1) == ["verify"] and set(completed("tilewright b", 1)) == {"bench", "bisect"}
    assert "--compare" in completed("tilewright bench m.onnx --c", 3)


def test_an_internal_error_says_how_to_report_it(
    tilewright: Command, model: Path, output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(sys.modules["tilewright.compile"], "compile", broken)
    outcome = tilewright("compile", model, "-o", output)
    assert outcome.status == INTERNAL_ERROR_STATUS == 70
    message = outcome.err[outcome.err.index("internal error: ") :]
    assert (
        "ZeroDivisionError: a fault of ours" in message
        and "Please report it with the output of `tilewright doctor`" in message
    )
    assert "Traceback" in outcome.err and not output.exists()


def test_an_internal_error_raised_on_purpose_is_told_once(
    tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise InternalError("the plan does not add up")

    monkeypatch.setattr(sys.modules["tilewright.compile"], "compile", broken)
    outcome = tilewright("run", model)
    assert outcome.status == 70 and outcome.err.count("internal error: the plan does not add up\nThis is a fault") == 1


def test_a_warning_is_one_line(
    tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("TILEWRIGHT_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    outcome = tilewright("run", model)
    assert outcome.status == 0
    assert re.fullmatch(r"warning: cache directory .* is not writable .*\n", outcome.err)


def test_the_installed_command_in_a_process_of_its_own(model: Path, tmp_path: Path) -> None:
    model.write_bytes(model.read_bytes()[:50])
    command = [sys.executable, "-m", "tilewright.cli.main", "compile", str(model), "-o", str(tmp_path / "m.tw")]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(r"error: .*perceptron\.onnx .* truncated or damaged .*\n", done.stderr)
    assert sorted(tmp_path.iterdir()) == [model]


def test_bisect_of_more_than_two_gigabytes(refused: Refused, tmp_path: Path) -> None:
    stored = perceptron()
    weight = stored.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("length", str(5 << 30))):
        weight.external_data.add(key=key, value=value)
    message = refused("bisect", saved(stored, tmp_path / "large.onnx"))
    assert "has room for 2 GB" in message and "holds 5.0 GiB" in message and "verify --at VALUE" in message


def test_bisect_says_first_where_it_cannot_write(refused: Refused, model: Path, tmp_path: Path) -> None:
    assert "No such file or directory" in refused("bisect", model, "-o", tmp_path / "absent" / "b.onnx")
    assert "it is the model that is being read" in refused("bisect", model, "-o", model)


def test_damaged_weights_are_found_by_every_verb(refused: Refused, artifact: Path) -> None:
    contents = bytearray(artifact.read_bytes())
    contents[-1] ^= 0xFF
    artifact.write_bytes(bytes(contents))
    for verb in ("run", "profile", "inspect"):
        assert "is damaged: the checksum of its weights does not match" in refused(verb, artifact)


def test_an_artifact_of_another_version(refused: Refused, artifact: Path) -> None:
    contents = bytearray(artifact.read_bytes())
    contents[16] = 9
    artifact.write_bytes(bytes(contents))
    assert "has artifact version 9; this Tilewright reads version 2. Compile the model again" in refused(
        "run", artifact
    )


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system without space."""
    folder = tmp_path / "full"
    folder.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mounting, capture_output=True, check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    (folder / "filler").write_bytes(bytes(8192))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize(
    ("verb", "option", "name"),
    [
        ("compile", "-o", "m.tw"),
        ("compile", "-o", "m.so"),
        ("run", "--output", "y.npz"),
        ("profile", "--trace", "t.json"),
        ("profile", "--report", "r.html"),
        ("bench", "--report", "r.html"),
    ],
)
def test_a_full_disk(verb: str, option: str, name: str, full_disk: Path, tilewright: Command, model: Path) -> None:
    outcome = tilewright(verb, model, option, full_disk / name)
    assert outcome.status == 2
    assert outcome.err == f"error: cannot write {full_disk / name}: No space left on device\n"
    assert [path.name for path in full_disk.iterdir()] == ["filler"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), "error: /tmp/x: No space left on device\n"),
        (MemoryError(), "error: there is not enough memory for this\n"),
    ],
)
def test_what_the_system_refuses_is_no_fault_of_ours(
    error: Exception, message: str, tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("tilewright.cli.run.describe", refuse)
    outcome = tilewright("run", model)
    assert outcome.status == 2 and outcome.err == message
