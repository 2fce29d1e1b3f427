"""Trained models and benchmark networks compiled whole, compared with onnxruntime on fresh random inputs."""

from __future__ import annotations

import importlib.util
import json
import runpy
import sysconfig
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilewright as tw
from tests.oracles import open_session
from tilewright.cli.inputs import fresh_seed, random_inputs
from tilewright.frontend.comparison import compare

ROOT = Path(__file__).resolve().parent.parent
MODELS = ROOT.parent / "shared" / "models"

#: name -> (file, input shapes, bound on max|ours - ref| / max|ref|: 1e-4, and 3e-4 for recurrent nets)
TRAINED: dict[str, tuple[str, dict[str, tuple[int, ...]], float]] = {
    "ppocr_cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": (1, 3, 48, 192)}, 1e-4),
    "ppocrv4_det": ("ch_PP-OCRv4_det_infer.onnx", {"x": (1, 3, 320, 480)}, 1e-4),
    "basic_pitch": ("nmp.onnx", {"serving_default_input_2:0": (1, 43844, 1)}, 1e-4),
    "magika": ("model.onnx", {"bytes": (1, 2048)}, 1e-4),
    "aecmos": ("Run_1663829550_Stage_0.onnx", {"input": (1, 3, 400, 160)}, 3e-4),
}


def page(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """An image [1, 3, height, width] with lines of random dark glyphs on white, normalized as the detector wants it."""
    generator = np.random.default_rng(seed)
    image = np.ones(shape[2:], np.float32)
    for top in range(12, shape[2] - 20, 36):
        for left in range(12, shape[3] - 16, 12):
            if generator.random() < 0.85:
                glyph = np.kron(generator.random((7, 5)) < 0.5, np.ones((2, 2)))
                image[top : top + 14, left : left + 10] -= 0.9 * glyph
    mean, deviation = (np.array(v)[:, None, None] for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    return ((image - mean) / deviation).astype(np.float32)[None]


def check(path: Path, shapes: dict[str, tuple[int, ...]] | None, bound: float, text: bool = False) -> None:
    """Compile, run on fresh inputs with 1 and 2 threads, compare with each other and with onnxruntime."""
    executable = tw.compile(path, input_shapes=shapes, threads=2)
    seed = fresh_seed()
    inputs = {"x": page(executable.inputs[0].shape, seed)} if text else random_inputs(executable.inputs, seed)
    results = executable.run(inputs)
    expected = open_session(path).run(None, inputs)
    for spec, ours, reference in zip(executable.outputs, results, expected, strict=True):
        assert ours.dtype == reference.dtype
        difference = compare(spec.name, ours, reference, bound, 0.0)
        assert difference.passed, f"seed {seed}: {difference.line()}"
    executable.set_threads(1)
    for first, second in zip(results, executable.run(inputs), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.sample(2)
def test_a_trained_model(name: str) -> None:
    file, shapes, bound = TRAINED[name]
    path = MODELS / "real" / "onnx" / name / file
    if not path.is_file():
        pytest.skip(f"the trained model {path} is not there")
    # On noise the text detector's outputs are all but zero, where rounding is all one would compare.
    check(path, shapes, bound, text=name == "ppocrv4_det")


#: name -> (input shapes that one executable takes in turn, bound). The int8 model rounds on the edge now and then, as
#: onnxruntime's own fused and plain forms of it do.
OPEN: dict[str, tuple[list[dict[str, tuple[int, ...]]], float]] = {
    "ppocr_cls": ([{"x": (1, 3, 48, 192)}, {"x": (3, 3, 48, 100)}, {"x": (2, 3, 64, 150)}], 1e-4),
    "ppocrv4_det": ([{"x": (1, 3, 320, 320)}, {"x": (1, 3, 96, 224)}, {"x": (1, 3, 480, 160)}], 1e-4),
    "basic_pitch": ([{"serving_default_input_2:0": (n, 43844, 1)} for n in (1, 3, 2)], 1e-4),
    "magika": ([{"bytes": (n, 2048)} for n in (1, 3, 2)], 1e-4),
    "aecmos": ([{"input": (1, 3, n, 160), "h0": (4, 1, 64)} for n in (400, 613, 250)], 3e-4),
    "smart_turn_v3_int8": ([{"input_features": (n, 80, 800)} for n in (1, 2)], 1e-2),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in ("ppocrv4_det", "smart_turn_v3_int8") else [])
        for name in OPEN
    ],
)
@pytest.mark.sample(2)
def test_a_trained_model_of_open_sizes(name: str) -> None:
    """Compiled once without any size, run at several."""
    paths = sorted((MODELS / "real" / "onnx" / name).glob("*.onnx"))
    if not paths:
        pytest.skip(f"the trained model {name} is not in {MODELS}")
    executable, reference = tw.compile(paths[0]), open_session(paths[0])
    sizes, bound = OPEN[name]
    generator = np.random.default_rng(7)
    for shapes in sizes:
        inputs = {}
        for spec in executable.inputs:
            shape = shapes[spec.name]
            drawn = generator.standard_normal(shape) if spec.dtype.is_float else generator.integers(0, 100, shape)
            inputs[spec.name] = drawn.astype(spec.numpy)
        if name == "ppocrv4_det":
            inputs = {"x": page(shapes["x"], 7)}
        for spec, ours, expected in zip(
            executable.outputs, executable.run(inputs), reference.run(None, inputs), strict=True
        ):
            difference = compare(spec.name, ours, expected, bound, 0.0)
            assert difference.passed, f"{shapes}: {difference.line()}"


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["mlp", "dqn", "squeezenet1_1"])
def test_a_benchmark_network(name: str, tmp_path: Path) -> None:
    script = MODELS / "nets" / "fill.py"
    if not script.is_file():
        pytest.skip(f"the script {script} that makes the networks is not there")
    path = tmp_path / f"{name}.onnx"
    runpy.run_path(str(script))["fill"](name, str(path))
    check(path, None, 1e-4)


def example(name: str) -> ModuleType:
    """A script of examples/ as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def magika_folder() -> Path:
    """The folder of Magika's model and its configuration: beside this checkout, or in the installed package."""
    folder = MODELS / "real" / "onnx" / "magika"
    if folder.is_dir():
        return folder
    if importlib.util.find_spec("magika") is None:
        pytest.skip(f"neither {folder} nor the package magika is there")
    return example("identify_files").model_folder()


def real_files(count: int) -> list[Path]:
    """`count` files of as many kinds as there are in the standard library and the installed packages."""
    by_kind: dict[str, list[Path]] = {}
    for key in ("stdlib", "purelib"):
        for path in sorted(Path(sysconfig.get_path(key)).glob("*/*")):
            if path.is_file() and path.stat().st_size >= 64:
                by_kind.setdefault(path.suffix, []).append(path)
    rounds = max(len(group) for group in by_kind.values())
    return [group[i] for i in range(rounds) for group in by_kind.values() if i < len(group)][:count]


def test_magika_gives_the_same_label_on_fifty_files() -> None:
    folder = magika_folder()
    features = example("identify_files").features
    config = json.loads((folder / "config.min.json").read_text())
    executable = tw.compile(folder / "model.onnx", input_shapes={"bytes": (1, 2048)})
    reference = open_session(folder / "model.onnx")
    files = real_files(50)
    assert len(files) == 50
    labels = set()
    for path in files:
        row = features(path.read_bytes(), config)
        (ours,) = executable.run({"bytes": row})
        (expected,) = reference.run(None, {"bytes": row})
        assert ours.argmax() == expected.argmax(), path
        labels.add(int(ours.argmax()))
    assert len(labels) >= 8
