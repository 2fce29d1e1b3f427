"""`tilewright profile`: every kernel under the names of the model's nodes."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.cli.conftest import Command
from tilewright.cli.profile import is_impossible
from tilewright.cli.profile_device import roofline_of, table_of
from tilewright.runtime.profile import KernelTime


@pytest.mark.parametrize("name", ["model", "image_model", "artifact"])
def test_kernels_are_listed_with_times_and_sources(
    name: str, tilewright: Command, request: pytest.FixtureRequest
) -> None:
    outcome = tilewright("profile", request.getfixturevalue(name), "--repeat", 3)
    assert outcome.status == 0 and outcome.err == ""
    heading, peak, columns, *rows = outcome.out.splitlines()
    assert re.fullmatch(rf"{len(rows)} kernel calls, \d+\.\d+ ms in all, predicted \d+\.\d+ ms, \d+ threads", heading)
    assert re.fullmatch(r"measured multiply-add peak: \d+\.\d GFLOP/s", peak) and columns.endswith("source nodes")
    figures = r" +\d+\.\d+ ms +\d+\.\d+ ms +\d+\.\d % +\d+\.\d +\d+\.\d %  [a-z0-9 ]+ +"
    assert all(re.fullmatch(figures + r"fused_\w+  \(\w[^()]*\)  \S.*", row) for row in rows)
    assert ("project" if name != "image_model" else "first_conv") in outcome.out


def test_only_the_slowest(tilewright: Command, image_model: Path) -> None:
    outcome = tilewright("profile", image_model, "--top", 1, "--repeat", 1)
    assert len(outcome.out.splitlines()) == 4


def test_a_trace_with_a_track_for_each_worker_and_the_compilation(
    tilewright: Command, image_model: Path, tmp_path: Path
) -> None:
    arguments = ("--repeat", 1, "--threads", 2, "--no-cache", "--trace", tmp_path / "trace.json")
    assert tilewright("profile", image_model, *arguments).status == 0
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e["ph"] == "M"}
    kernels = [e for e in events if e.get("cat") == "kernel"]
    stages = [e for e in events if e.get("cat") == "stage"]
    assert all(e["ph"] == "X" and e["dur"] > 0 and e["ts"] >= 0 and e["args"]["source"] for e in kernels)
    assert {names[e["pid"], e["tid"]] for e in kernels} <= {"worker 0", "worker 1"} and names[1, None] == "model"
    assert {"frontend", "compile kernels"} <= {e["name"] for e in stages} and names[2, None] == "compilation"
    assert max(e["ts"] + e["dur"] for e in stages) <= min(e["ts"] for e in kernels)
    for track in {(e["pid"], e["tid"]) for e in (*kernels, *stages)}:
        assert nested([e for e in (*kernels, *stages) if (e["pid"], e["tid"]) == track])


def nested(events: list[dict[str, Any]]) -> bool:
    """True if of any two events of a track one holds the other, or ends before it begins."""
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events]
    return all(
        b1 <= a2 + 1e-3 or b2 <= a1 + 1e-3 or (a1 <= a2 and b2 <= b1 + 1e-3) or (a2 <= a1 and b1 <= b2 + 1e-3)
        for i, (a1, b1) in enumerate(spans)
        for a2, b2 in spans[:i]
    )


def test_a_report_that_needs_no_other_file(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    outcome = tilewright("profile", image_model, "--repeat", 1, "--no-cache", "--report", tmp_path / "report.html")
    assert outcome.status == 0
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert (
        "first_conv" in page.replace("<wbr/>", "") and "frontend" in page and "src=" not in page and "http" not in page
    )


def test_figures_of_all_kernels_as_json(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    options = ("--repeat", 1, "--top", 1, "--json", tmp_path / "figures.json")
    assert tilewright("profile", image_model, *options).status == 0
    kernels = json.loads((tmp_path / "figures.json").read_text())["kernels"]
    assert len(kernels) > 1 and all(one["seconds"] > 0 and one["kernel"] and "schedule" in one for one in kernels)


def test_a_trace_that_cannot_be_written(tilewright: Command, image_model: Path, tmp_path: Path) -> None:
    outcome = tilewright("profile", image_model, "--trace", tmp_path)
    assert outcome.status == 2 and "is a directory" in outcome.err


def row(flops: int, template: str = "dense_pack") -> KernelTime:
    return KernelTime("k", "n", 1e-3, flops, 1, {"template": template})


def test_more_than_the_peak_is_impossible_but_for_kernels_that_multiply_less() -> None:
    assert not is_impossible(row(105_000_000), 100.0) and is_impossible(row(111_000_000), 100.0)
    assert not is_impossible(row(400_000_000, "conv2d_winograd"), 100.0)
    assert is_impossible(row(450_000_000, "conv2d_winograd"), 100.0)


def test_kernels_of_bytes_stand_beside_the_peak_of_bytes(tilewright: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(-127, 128, (64, 64)).astype(np.int8)
    text = (
        "g (uint8[16, 64] x) => (int32[16, 64] y, float[16, 64] z) "
        "{ y = MatMulInteger(x, w)  f = Cast<to=1>(x)  z = MatMul(f, v) }"
    )
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    floats = rng.standard_normal((64, 64)).astype(np.float32)
    model.graph.initializer.extend([numpy_helper.from_array(weight, "w"), numpy_helper.from_array(floats, "v")])
    onnx.save(model, tmp_path / "bytes.onnx")
    outcome = tilewright("profile", tmp_path / "bytes.onnx", "--repeat", 1)
    assert outcome.status == 0 and re.search(r"^measured peak of products of int8: \d+\.\d GOP/s$", outcome.out, re.M)
    (rate,) = re.findall(r"products of int8: (\S+)", outcome.out)
    (plain,) = re.findall(r"multiply-add peak: (\S+)", outcome.out)
    shares = re.findall(r" (\d+\.\d) +(\d+\.\d) %\??  [a-z0-9 ]+ +fused_\S*(?:dense|matmul)", outcome.out)
    assert len(shares) == 2
    for speed, share in shares:
        of_peaks = [100 * float(speed) / float(peak) for peak in (rate, plain)]
        assert any(abs(float(share) - found) < 0.1 + 0.05 * found for found in of_peaks)


def test_a_peak_that_a_kernel_passes_is_measured_again(
    tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peaks = iter([1e-6, 1e-6, 1e9])
    monkeypatch.setattr("tilewright.cli.peak.fma_peak", lambda *_, **__: next(peaks))
    outcome = tilewright("profile", model, "--repeat", 1)
    assert "peak: 1000000000.0 GFLOP/s" in outcome.out and "?" not in outcome.out


def test_what_cannot_be_is_marked(tilewright: Command, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cli.peak.fma_peak", lambda *_, **__: 1e-6)
    outcome = tilewright("profile", model, "--repeat", 1)
    assert " %?" in outcome.out and "note: shares of the peak marked ?" in outcome.out


@pytest.mark.skipif(not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="emulation needs a C++ compiler")
def test_a_device_by_its_rates(tilewright: Command, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    outcome = tilewright("profile", model, "--target", "cuda -emulate=1", "--repeat", 1, "--report", page)
    assert outcome.status == 0 and outcome.err == ""
    heading, roofline, columns, *rows = outcome.out.splitlines()
    assert re.fullmatch(rf"{len(rows)} calls, \d+\.\d+ ms in all, on .*emulated.*", heading)
    assert roofline.startswith("no roofline") and "occupancy" in columns and "GB/s" in columns
    assert all(
        re.match(r" +\d+\.\d+ ms +(\d+\.\d+ ms|–) +\d+\.\d % +\d+\.\d +\d+\.\d +– +–  \w+  \(", row) for row in rows
    )
    assert "of roofline" in page.read_text(encoding="utf-8")


def test_the_roofline_of_a_gpu_is_by_its_drivers_figures() -> None:
    facts = {"arch": "sm_90", "multiprocessors": 132, "clock_hz": 1.98e9, "memory_bandwidth": 4.8e12}
    assert roofline_of(facts) == (pytest.approx(2 * 128 * 132 * 1.98e9), 4.8e12)
    assert roofline_of({"name": "some device", "compute_units": 2}) is None
    rows = [KernelTime("k", "node", 1e-3, flops=10**9, nbytes=24 * 10**8, occupancy=0.5)]
    (line,) = table_of(rows, (66.9e12, 4.8e12), 1e-3)
    assert line[3:7] == ("1000.0", "2400.0", "50.0 %", "50 %")
