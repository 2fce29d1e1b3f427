"""Every bench runs in its smoke mode and writes figures that make sense; what they compute is right."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.dom import minidom

import numpy as np
import pytest

from tests.board.test_board import tools_of
from tests.onnx_models import convolution, saved
from tilewright.runtime.profile import KernelTime


def run_bench(folder: Path, name: str, *arguments: object) -> str:
    """The output of a bench run as a script."""
    command = [sys.executable, str(folder / f"{name}.py"), *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600).stdout


def test_the_peak_of_the_machine(bench_folder: Path, tmp_path: Path) -> None:
    out = run_bench(bench_folder, "peak", "--smoke", "--threads", 1, "--json", tmp_path / "peak.json")
    assert "FMA peak, GFLOP/s" in out and "copy DRAM, GB/s" in out
    figures = json.loads((tmp_path / "peak.json").read_text())["figures"]["1"]
    assert figures["fma"] > 0.5 and all(value > 0.1 for value in figures.values())


def test_models_on_boards(bench_folder: Path, tmp_path: Path, peers: str) -> None:
    tools_of("virt")
    model = saved(convolution(), tmp_path / "net.onnx")
    out = run_bench(bench_folder, "boards", model, "--boards", "virt", "--json", tmp_path / "out.json")
    (row,) = json.loads((tmp_path / "out.json").read_text())
    assert out.count("| net | virt |") == 1 and row["instructions"] > 1000 and row["rom"] > 100
    assert row["difference"] < 1e-5


@pytest.mark.parametrize(("name", "count", "engines"), [("layers", 2, 2), ("gemm", 1, 3)])
def test_single_operators_are_measured_and_written(
    name: str, count: int, engines: int, bench_folder: Path, tmp_path: Path, peers: str
) -> None:
    files = ("--json", tmp_path / "out.json", "--markdown", tmp_path / "out.md")
    run_bench(bench_folder, name, "--smoke", "--threads", 1, "--compare", peers, *files)
    (record,) = json.loads((tmp_path / "out.json").read_text())["threads"]
    assert record["machine"]["threads"] == 1 and len(record["results"]) == count
    for result in record["results"]:
        assert result["flops"] > 0 and result["nbytes"] > 0 and len(result["minimum_ms"]) == engines
        assert all(0 < result["minimum_ms"][e] <= result["median_ms"][e] for e in result["minimum_ms"])
        assert result["kernel_ms"] > 0 and result["peak_share"] > 0
    assert "kernel ratio" in (tmp_path / "out.md").read_text()


def test_products_of_bytes(bench_folder: Path, tmp_path: Path, peers: str) -> None:
    arguments = ("--smoke", "--dtype", "int8", "--threads", 1, "--compare", peers, "--json", tmp_path / "out.json")
    run_bench(bench_folder, "gemm", *arguments)
    (record,) = json.loads((tmp_path / "out.json").read_text())["threads"]
    (result,) = record["results"]
    assert result["flops"] == 2 * 32**3 and result["kernel"].startswith("fused_nn_contrib_dense_int8")
    assert "openvino" not in result["minimum_ms"] and 0 < result["peak_share"] < 1


def test_the_layers_of_the_paper(peers: str) -> None:
    layers = importlib.import_module("layers").LAYERS
    assert [layers[f"C{i}"].output_size for i in range(1, 13)] == [112, 56, 56, 28, 28, 28, 14, 14, 14, 7, 7, 7]
    assert layers["C1"].padding() == (2, 3) and layers["C2"].padding() == (1, 1) and layers["C5"].padding() == (0, 0)
    assert len(layers) == 21 and all(layers[f"D{i}"].groups == layers[f"D{i}"].inputs for i in range(1, 10))


def test_a_small_layer_is_the_convolution_it_says(peers: str) -> None:
    import onnxruntime

    import tilewright as tw

    model = importlib.import_module("layers").SMOKE["D"].model()
    x = np.random.default_rng(3).standard_normal((1, 16, 8, 8), dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": x})
    np.testing.assert_allclose(tw.compile(model, cache=False)(x), expected, rtol=1e-5, atol=1e-5)


def record(**milliseconds: float) -> dict[str, Any]:
    timings = [{"engine": e, "minimum_ms": t, "median_ms": 2 * t} for e, t in milliseconds.items()]
    return {"model": "net", "threads": 2, "compile_seconds": 1.0, "cached_compile_seconds": 0.1, "timings": timings}


def test_symbolic_sizes_beside_fixed_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    symbolic = importlib.import_module("symbolic")
    path = saved(convolution(), tmp_path / "net.onnx")
    monkeypatch.setitem(symbolic.MODELS, "net H", ("image", (1, 3, "H", 12), [{"H": 12}, {"H": 20}]))
    assert symbolic.find(tmp_path, "net H") == path and symbolic.find(tmp_path, "other") is None
    symbolic.measure("net H", path, symbolic.MODELS["net H"], seconds=0.0)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("| net H | 1×3×12×12 | ") and second.startswith("| net H | 1×3×20×12 | ")
    assert all(float(cell) >= 0 for cell in second.split("|")[3:-1])


def test_the_table_of_networks() -> None:
    networks = importlib.import_module("networks")
    records = [record(tilewright=1.0, onnxruntime=2.0, openvino=8.0), record(tilewright=4.0, onnxruntime=2.0)]
    text = networks.markdown(records, 2)
    assert "| 1.00 / 2.00 | 2.00 / 4.00" in text and "Geometric mean of the ratios: 1.00; lowest 0.50." in text
    assert networks.markdown(records, 1).count("net") == 0


def test_a_network_in_bytes_by_all_kinds_of_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], peers: str
) -> None:
    saved(convolution(), tmp_path / "net.onnx")
    out = tmp_path / "out.json"
    arguments = ["--one", "net", "--activations", "uint8", "--seconds", 0.01, "--compare", peers, "--folder", tmp_path]
    int8 = importlib.import_module("int8")
    monkeypatch.setattr(sys, "argv", ["int8.py", *map(str, arguments), "--threads", "1", "--json", str(out)])
    assert int8.main() == 0
    record = json.loads(capsys.readouterr().out)
    assert {"native", "float32", peers} <= record["times"].keys() and (tmp_path / "uint8" / "net.onnx").exists()
    assert int8.over_peers(record, "native") == record["times"][peers][0] / record["times"]["native"][0]
    times = {"native": [1.0, 2.0], "AVX2": [2.0, 3.0], "float32": [4.0, 5.0], "onnxruntime": [3.0, 3.0]}
    text = int8.markdown([{"model": "net", "activations": "int8", "times": times}])
    assert "| 1.00 / 2.00 |" in text and "| geometric mean |" in text and "4.00" in text.splitlines()[-1]


@pytest.mark.long
def test_a_checkout_beside_itself(tmp_path: Path) -> None:
    """Three processes in turns; the interval holds the median, and ends are of the turns measured."""
    checkouts = importlib.import_module("checkouts")
    model = saved(convolution(), tmp_path / "model.onnx")
    seconds, ratios = checkouts.compare(checkouts.ROOT, model, threads=1, seconds=0.0)
    assert seconds > 0 and len(ratios) == 2
    assert all(0 < low <= middle <= high for middle, low, high in ratios)
    assert checkouts.median_with_interval([3.0, 1.0, 2.0] * 100)[0] == 2.0


def test_ratios_leave_numpy_out() -> None:
    report = importlib.import_module("report")
    assert report.ratio_to_peers({"tilewright": 2.0, "onnxruntime": 3.0, "numpy": 1.0}) == 1.5
    assert report.ratio_to_peers({"tilewright": 2.0, "numpy": 1.0}) is None


def test_a_roofline_is_an_image_with_a_dot_per_kernel(peers: str) -> None:
    roofline, single = importlib.import_module("roofline"), importlib.import_module("single")
    rows = [
        KernelTime("fused_a<b>", "conv & relu", 1e-3, 2_000_000, 40_000, {"template": "conv2d_NCHWc"}),
        KernelTime("fused_c", "pool", 2e-4, 5_000, 90_000, {"template": "pool"}),
        KernelTime("copy_8", "", 1e-5),
    ]
    machine = single.Machine(2, 200.0, {"L2": 200.0, "L3": 100.0, "DRAM": 50.0})
    page = minidom.parseString(roofline.roofline_svg("net", rows, machine))
    assert len(page.getElementsByTagName("title")) == 2
    for circle in page.getElementsByTagName("circle"):
        assert 0 < float(circle.getAttribute("cx")) < 860 and 0 < float(circle.getAttribute("cy")) < 520


def test_a_roofline_of_a_model(bench_folder: Path, tmp_path: Path) -> None:
    model = saved(convolution(), tmp_path / "convolution.onnx")
    run_bench(bench_folder, "roofline", model, tmp_path / "plot.svg", "--repeat", 2, "--seconds", 0.01, "--threads", 1)
    assert "multiply-add peak" in (tmp_path / "plot.svg").read_text()


def test_a_quota_decides_the_number_of_threads(bench_folder: Path) -> None:
    constraints = importlib.import_module("constraints")
    program = (
        "from tilewright.runtime.threads import cgroup_quota, default_workers; print(cgroup_quota(), default_workers())"
    )
    try:
        with constraints.limited(0.5) as group:
            command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$0" -c "$1"', sys.executable, program]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    assert done.stdout == "0.5 1\n"


def test_where_no_control_group_can_be_made(
    bench_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    constraints = importlib.import_module("constraints")
    monkeypatch.setattr(constraints, "HIERARCHIES", [(tmp_path / "absent", "cpu.max", "{}")])
    monkeypatch.setattr(constraints, "QUOTAS", [0.5])
    constraints.quotas("model.onnx")
    printed = capsys.readouterr().out
    assert printed.startswith("quota of 0.5 processors: skipped, no control group can be made here (")


def test_a_folder_of_models_is_verified(bench_folder: Path, tmp_path: Path, peers: str) -> None:
    (tmp_path / "models").mkdir()
    saved(convolution(), tmp_path / "models" / "one.onnx")
    folders = (tmp_path / "models", tmp_path / "absent")
    out = run_bench(bench_folder, "verified", *folders, "--levels", "0,3", "--seconds", 0.01)
    row = next(line for line in out.splitlines() if line.startswith("| one"))
    *_, difference, speed, _ = (cell.strip() for cell in row.split("|"))
    assert 0 <= float(difference) < 1e-4 and float(speed) > 0


def test_a_kernel_compared_with_itself(bench_folder: Path) -> None:
    out = run_bench(bench_folder / "autotvm", "same", "--smoke")
    assert out.count("of 2; ratios") == 2


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_nothing_is_lost_or_left_behind_where_everything_goes_wrong(bench_folder: Path, tmp_path: Path) -> None:
    out = run_bench(bench_folder / "autotvm", "faults", "--smoke", "--folder", tmp_path)
    assert " trials: " in out and (tmp_path / "records.jsonl").exists()


@pytest.mark.long
def test_sketches_beside_the_compilers_own_schedules(bench_folder: Path) -> None:
    out = run_bench(bench_folder / "autotvm", "sketches", "--smoke")
    row = next(line for line in out.splitlines() if line.startswith("| softmax"))
    assert float(row.split("|")[3]) > 0


@pytest.mark.long
def test_contention_is_measured_and_written(bench_folder: Path, tmp_path: Path) -> None:
    arguments = ("--smoke", "--folder", tmp_path, "--json", tmp_path / "out.json", "--markdown", tmp_path / "out.md")
    run_bench(bench_folder, "contention", *arguments)
    (record,) = json.loads((tmp_path / "out.json").read_text())["records"]
    assert record["busy"] == 1 and record["model"] == "chain"
    assert all(0 < f["min"] <= f["median"] <= f["p95"] and f["runs"] > 1 for f in record["engines"].values())
    assert len(record["engines"]) == 2 and "least mean" in (tmp_path / "out.md").read_text()
