"""`tilewright run`: outputs shown and stored; a compiled artifact needs no compiler."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from tests.cli.conftest import Command
from tests.onnx_models import make_model, saved


def test_random_inputs_are_fresh_unless_seeded(tilewright: Command, model: Path) -> None:
    first, second = tilewright("run", model), tilewright("run", model)
    assert first.status == second.status == 0 and first.err == ""
    assert re.match(r"random input \(seed \d+\): x\ny: float32\[1, 4\] in \[.*\]: .*\nran in \d+\.\d+ ms\n", first.out)
    assert first.out.splitlines()[1] != second.out.splitlines()[1]
    seeded = [tilewright("run", model, "--seed", 7).out.splitlines()[:2] for _ in range(2)]
    assert seeded[0] == seeded[1] and "(seed 7)" in seeded[0][0]


def test_inputs_from_files_and_outputs_to_a_file(tilewright: Command, model: Path, tmp_path: Path) -> None:
    x = np.random.default_rng().standard_normal((1, 8), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    outcome = tilewright("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz")
    assert outcome.status == 0 and "random" not in outcome.out
    (expected,) = onnxruntime.InferenceSession(model).run(None, {"x": x})
    with np.load(tmp_path / "y.npz") as stored:
        np.testing.assert_allclose(stored["y"], expected, rtol=1e-5, atol=1e-6)
        assert stored.files == ["y"]
    assert {path.name for path in tmp_path.iterdir()} == {model.name, "x.npy", "y.npz"}


def test_an_array_in_column_order_is_taken(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    image = np.random.default_rng(3).standard_normal((1, 3, 12, 12), dtype=np.float32)
    lines = []
    for name, array in (("c", image), ("f", np.asfortranarray(image))):
        np.save(tmp_path / f"{name}.npy", array)
        lines.append(tilewright("run", image_model, "--input", f"image={tmp_path / name}.npy").out.splitlines()[0])
    assert lines[0] == lines[1]


def test_exact_rounding_rounds_each_operator(tilewright: Command, tmp_path: Path) -> None:
    """exp(12) in float16 is infinite: so is a tenth of it, where each operator is rounded."""
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Mul", ["e", "tenth"], ["y"])]
    half = TensorProto.FLOAT16
    model = make_model(nodes, {"x": (half, (1,))}, {"y": (half, (1,))}, {"tenth": np.float16([0.1])})
    path = saved(model, tmp_path / "m.onnx")
    assert "y: float16[1] in [16272, 16272]" in tilewright("run", path, "--input", "x=12").out
    assert "y: float16[1] in [inf, inf]" in tilewright("run", path, "--input", "x=12", "--exact-rounding").out
    artifact = tmp_path / "m.tw"
    assert tilewright("compile", path, "-o", artifact, "--exact-rounding").status == 0
    assert "[inf, inf]" in tilewright("run", artifact, "--input", "x=12").out
    assert "leave out --exact-rounding" in tilewright("run", artifact, "--exact-rounding").err


def test_texts_and_sequences(tilewright: Command, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["t"], ["u"]),
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0),
    ]
    parts = helper.make_tensor_sequence_value_info("parts", TensorProto.FLOAT, None)
    model = make_model(
        nodes, {"t": (TensorProto.STRING, (2,)), "x": (TensorProto.FLOAT, (2, 3))}, {"u": (TensorProto.STRING, (2,))}
    )
    model.graph.output.append(parts)
    path = saved(model, tmp_path / "m.onnx")
    outcome = tilewright("run", path, "--input", 't=["a=b","c"]', "--input", "x=2", "--output", tmp_path / "y.npz")
    assert outcome.status == 0, outcome.err
    assert "u: string[2]: a=b, c\n" in outcome.out and "parts[1]: float32[1, 3] in [2, 2]" in outcome.out
    with np.load(tmp_path / "y.npz") as stored:
        assert stored["u"].tolist() == ["a=b", "c"] and stored["parts[0]"].shape == (1, 3)
    verified = tilewright("verify", path, "--input", 't=["a","b"]', "--input", "x=2")
    assert verified.status == 0 and "ok       u" in verified.out and "ok       parts[1]" in verified.out


def test_an_artifact_runs_without_the_compiler(artifact: Path) -> None:
    """Neither a compiler package nor the onnx package is imported to run an artifact."""
    program = (
        "import sys; from tilewright.cli.main import cli, guarded\n"
        f"status = guarded(lambda: cli.main(['run', {str(artifact)!r}], standalone_mode=False))\n"
        "print(status, *sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    status, *modules = done.stdout.splitlines()[-1].split()
    assert status == "0"
    ours = {name.split(".")[1] for name in modules if name.startswith("tilewright.")}
    assert ours == {"cli", "errors", "load", "runtime", "support"}
    assert not {"onnx", "onnxruntime", "google.protobuf"} & set(modules)


def test_a_reader_that_has_seen_enough_is_no_error(model: Path) -> None:
    program = [sys.executable, "-m", "tilewright.cli.main", "inspect", str(model), "--stage", "llvm"]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() not in (2, 70)


def test_an_ascii_terminal(model: Path) -> None:
    program = [sys.executable, "-m", "tilewright.cli.main", "run", str(model.rename(model.with_name("modèle.onnx")))]
    done = subprocess.run(program, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0 and done.stderr == b"" and b"y: float32[1, 4]" in done.stdout
