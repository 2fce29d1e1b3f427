"""`tilewright quantize`: what it prints and writes, and its errors."""

import dataclasses
import functools
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import tilewright as tw
from tests.quantize.models import perceptron, rows
from tilewright.cli.main import cli, guarded


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with a model and its data."""
    folder = tmp_path_factory.mktemp("quantize")
    onnx.save(perceptron(), folder / "model.onnx")
    np.savez(folder / "rows.npz", **rows())
    return folder


def run(*arguments):
    return CliRunner().invoke(cli, ["quantize", *map(str, arguments)])


def test_it_prints_layers_and_loss_and_writes_model_and_recipe(files):
    made = run(files / "model.onnx", "--data", files / "rows.npz", "-o", files / "q.tw", "--recipe", files / "r.json",
               "--max-loss", "5%", "--loss", "relative", "--objective", "memory")  # fmt: skip
    assert made.exit_code == 0, made.output
    lines = made.stdout.splitlines()
    assert lines[0].split()[:3] == ["layer", "operator", "SQNR"]
    assert [line.split()[:2] for line in lines[1:3]] == [["inner", "nn.dense"], ["outer", "nn.dense"]]
    assert "2 of 2 layers in integers, ranges by mse" in lines[3]
    assert lines[4] == "samples  100 for ranges, 50 to choose layers, 50 held out"
    assert lines[5].startswith("loss     relative error ")
    assert lines[6] == "budget   5.000% (relative): holds on the samples held out"
    assert re.fullmatch(r" {9}on others it is at most [1-4]\.\d{3}%, with 95 % confidence", lines[7])
    recipe = json.loads((files / "r.json").read_text())
    assert list(recipe["layers"]) == ["inner", "outer"]
    again = run(files / "model.onnx", "-o", files / "again.tw", "--recipe", files / "r.json")
    assert again.exit_code == 0, again.output
    assert (files / "again.tw").read_bytes() == (files / "q.tw").read_bytes()
    x = rows()["x"][:1]
    exact = tw.compile(perceptron())(x)
    assert np.abs(tw.load(files / "q.tw")(x) - exact).max() < 0.1 * np.abs(exact).max()


def test_it_writes_onnx(files):
    made = run(files / "model.onnx", "--data", files / "rows.npz", "-o", files / "q.onnx", "--method", "minmax",
               "--objective", "none")  # fmt: skip
    assert made.exit_code == 0, made.output
    kinds = [node.op_type for node in onnx.load(files / "q.onnx").graph.node]
    assert kinds.count("QuantizeLinear") == 2
    assert kinds.count("DequantizeLinear") == 5


def test_it_writes_c_source_and_a_project(files):
    common = (
        files / "model.onnx",
        "--data",
        files / "rows.npz",
        "--freestanding",
        "--target",
        "c -mcpu=cortex-m4",
        "-o",
    )
    made = run(*common, files / "q.c")
    assert made.exit_code == 0, made.output
    # the times of this machine decide nothing for another
    assert "2 of 2 layers in integers" in made.stdout
    assert (
        "int tilewright_q_run(" in (files / "q.h").read_text()
        and "#include <math.h>" not in (files / "q.c").read_text()
    )
    made = run(*common, files / "project", "--layout", "cmake")
    assert made.exit_code == 0, made.output
    assert "int tilewright_project_run(" in (files / "project" / "src" / "project.c").read_text()
    assert "add_library(project STATIC" in (files / "project" / "CMakeLists.txt").read_text()


def test_weights_alone_need_no_data(files):
    made = run(
        files / "model.onnx", "--weights", "4", "--block", "16", "-o", files / "w.tw", "--recipe", files / "w.json"
    )
    assert made.exit_code == 0, made.output
    lines = made.stdout.splitlines()
    assert lines[0].split() == ["layer", "operator", "SQNR", "error", "weights", "in", "float"]
    assert [line.split()[0] for line in lines[1:3]] == ["inner", "outer"]
    assert "4 bits, blocks of 16" in lines[1]
    assert "weights of 2 of 2 layers in 4 bits, rounding nearest" in lines[3]
    assert lines[5].startswith("loss     not measured: there was no data")
    again = run(files / "model.onnx", "-o", files / "again.tw", "--recipe", files / "w.json")
    assert again.exit_code == 0, again.output
    assert (files / "again.tw").read_bytes() == (files / "w.tw").read_bytes()
    made = run(files / "model.onnx", "--weights", "4", "--data", files / "rows.npz", "-o", files / "w.onnx")
    assert made.exit_code == 0, made.output
    assert "loss     relative error " in made.stdout
    assert [node.op_type for node in onnx.load(files / "w.onnx").graph.node].count("MatMulNBits") == 2


@functools.cache
def recipe_of(wide):
    """The recipe of a model with another layer in it."""
    return tw.quantize(perceptron(wide=wide), rows(8), threads=1, objective=None).recipe


def write_recipes():
    """A recipe of another model, and one of which a part is missing."""
    recipe_of(12).save("other.json")
    broken = {name: dataclasses.replace(one, codes=()) for name, one in recipe_of(16).choices.items()}
    dataclasses.replace(recipe_of(16), choices=broken).save("short.json")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "q.tw", "--weights", "4", "--block", "20"], "error: block is one of 16, 32, 64, 128, 256; got 20"),
        (["-o", "q.tw"], "error: there is no data to calibrate on; pass --data FILE.npz"),
        (["-o", "q.tflite"], "quantized models are written as artifacts (.tw), as ONNX (.onnx) and as C source (.c)"),
        (
            ["-o", "q.tw", "--data", "rows.npz", "--max-loss", "0.00001%", "--loss", "relative", "--objective", "none"],
            "is out of reach",
        ),
        (["-o", "q.tw", "--data", "nan.npz"], "x holds NaN or infinity"),
        (["-o", "q.tw", "--data", "narrow.npz"], "a sample of x has shape [1, 7]; the input is x: float32[1, 8]"),
        (["-o", "q.tw", "--data", "other.npz"], "has no array for the input x: float32[1, 8]; it has: y"),
        (["-o", "q.tw", "--data", "rows.npz", "--method", "guess"], "method is one of minmax"),
        (["-o", "q.tw", "--recipe", "none.json"], "cannot read the recipe"),
        (["-o", "q.tw", "--data", "half.npz"], "--data half.npz cannot be read as .npz (File is not a zip file)"),
        (["-o", "q.tw", "--data", "damaged.npz"], "--data damaged.npz cannot be read as .npz"),
        (["-o", "q.tw", "--data", "text.npz"], "x is <U1, but the input is x: float32[1, 8]; convert it"),
        (["-o", "q.tw", "--data", "complex.npz"], "x is complex128, but the input is x: float32[1, 8]; convert it"),
        (["-o", "q.tw", "--data", "wide.npz"], "x holds numbers that float32 has not"),
        (["-o", "q.tw", "--data", "nothing.npz"], "the data has no samples"),
        (["-o", "q.tw", "--data", "folder"], "the folder has no .npz files"),
        (["-o", "q.tw", "--data", "rows.npz", "--loss", "accuracy"], "needs the class of each sample; pass --labels"),
        (["-o", "q.tw", "--recipe", "other.json"], "has 12 channels for the layer 'inner', the model 16"),
        (["-o", "q.tw", "--recipe", "short.json"], "has codes of 0 operands for the layer 'inner', the model 1"),
    ],
)
def test_errors_are_one_message(files, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(files)
    np.savez("nan.npz", x=np.full((4, 8), np.nan))
    np.savez("narrow.npz", x=np.zeros((4, 7)))
    np.savez("other.npz", y=np.zeros((4, 8)))
    np.savez("text.npz", x=np.full((4, 8), "a"))
    np.savez("complex.npz", x=np.ones((4, 8), complex))
    np.savez("wide.npz", x=np.full((4, 8), 1e300))
    np.savez("nothing.npz", x=np.zeros((0, 8)))
    whole = Path("rows.npz").read_bytes()
    Path("half.npz").write_bytes(whole[: len(whole) // 2])
    Path("damaged.npz").write_bytes(whole[:300] + bytes(40) + whole[340:])
    Path("folder").mkdir(exist_ok=True)
    write_recipes()
    before = sorted(Path().iterdir())
    status = guarded(lambda: cli.main(["quantize", "model.onnx", *arguments], standalone_mode=False))
    assert status == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert printed.count("error:") == 1
    assert "warning:" not in printed
    assert sorted(Path().iterdir()) == before


def test_a_share_is_a_number_or_a_percentage(files):
    made = run(files / "model.onnx", "-o", files / "q.tw", "--max-loss", "much")
    assert made.exit_code == 2
    assert "'much' is no share; write 0.5% or 0.005" in made.output
