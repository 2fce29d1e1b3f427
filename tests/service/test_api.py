"""The service's own API: models, jobs, events and artifacts; each answer conforms to the document."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tests.service.conftest import Service

pytest.importorskip("jsonschema", reason="the extra [serve] is not installed")

from tests.service.client import Client


def _weights(inner: int = 5) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.random.default_rng(0).standard_normal(shape) for shape in ((4, inner), (inner, 3)))
    return first.astype(np.float32), second.astype(np.float32)


def model_bytes(inner: int = 5) -> bytes:
    """Two dense layers as ONNX."""
    first, second = _weights(inner)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size]) for name, size in (("x", 4), ("y", 3)))
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    constants = [numpy_helper.from_array(first, "v"), numpy_helper.from_array(second, "w")]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(made.SerializeToString())


@pytest.fixture(scope="module")
def ada(service: Service) -> Client:
    """A client."""
    return Client.of(service, "api-ada")


def _files(client: Client, job: dict[str, Any], folder: Path) -> None:
    """Download a job's artifacts."""
    for one in job["artifacts"]:
        reply = client.call("GET", f"/v1/jobs/{job['id']}/artifacts/{one['name']}")
        assert reply.status == 200 and len(reply.body) == one["bytes"]
        assert reply.headers["etag"] == f'"{one["sha256"]}"'
        (folder / one["name"]).write_bytes(reply.body)


def test_a_model_becomes_an_artifact_and_a_program_that_runs(ada: Client, tmp_path: Path) -> None:
    model = ada.upload(model_bytes(), "net.onnx")
    assert ada.call("GET", f"/v1/models/{model}").json["format"] == "onnx"
    job = ada.run("compile", model, target="cpu")
    assert job["status"] == "completed", job["reason"]
    assert job["result"]["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 4]}]
    _files(ada, job, tmp_path)
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    first, second = _weights()
    np.testing.assert_allclose(tw.load(tmp_path / "model.tw")(x), x @ first @ second, rtol=1e-4, atol=1e-4)
    report = json.loads((tmp_path / "report.json").read_text())
    assert {kernel["group"] for kernel in report["kernels"]} and len(report["model"]["nodes"]) >= 2
    snippet = json.loads((tmp_path / "snippets.json").read_text())["python"]
    done = subprocess.run([sys.executable, "-c", snippet], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "y float32 (2, 3)\n"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
def test_c_source_comes_with_a_program(ada: Client, tmp_path: Path) -> None:
    job = ada.run("compile", ada.upload(model_bytes()), target="c")
    assert job["status"] == "completed", job["reason"]
    _files(ada, job, tmp_path)
    (tmp_path / "main.c").write_text(json.loads((tmp_path / "snippets.json").read_text())["c"])
    command = ["gcc", "-std=c11", "-O2", "-fwrapv", "main.c", "model.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    done = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "y: 24 bytes\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node.js")
def test_a_web_assembly_module_comes_with_a_program(ada: Client, tmp_path: Path) -> None:
    job = ada.run("compile", ada.upload(model_bytes()), target="wasm")
    assert job["status"] == "completed", job["reason"]
    _files(ada, job, tmp_path)
    (tmp_path / "main.mjs").write_text(json.loads((tmp_path / "snippets.json").read_text())["javascript"])
    done = subprocess.run(["node", "main.mjs"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "y float32 2x3\n"


def test_devices_of_this_machine_are_not_opened_for_their_code(ada: Client) -> None:
    job = ada.run("compile", ada.upload(model_bytes()), target="opencl")  # PoCL ends a process that has little memory
    assert job["status"] == "completed", job["reason"]


def test_risc_v_has_a_library_with_its_header(ada: Client, tmp_path: Path) -> None:
    target = next(one for one in ada.call("GET", "/v1/targets").json if one["name"] == "riscv64")
    if not target["available"]:
        pytest.skip(target["reason"])
    job = ada.run("compile", ada.upload(model_bytes()), target="riscv64")
    assert job["status"] == "completed", job["reason"]
    _files(ada, job, tmp_path)
    library = (tmp_path / "libmodel.so").read_bytes()
    assert library[:4] == b"\x7fELF" and int.from_bytes(library[18:20], "little") == 243  # EM_RISCV
    assert "tilewright_model(" in (tmp_path / "model.h").read_text()


def test_artifacts_in_ranges_and_by_digest(ada: Client) -> None:
    job = ada.run("compile", ada.upload(model_bytes()), target="x86-64-v2")
    assert job["status"] == "completed", job["reason"]
    path = f"/v1/jobs/{job['id']}/artifacts/model.tw"
    whole = ada.call("GET", path)
    part = ada.call("GET", path, headers={"Range": "bytes=8-15"})
    assert part.status == 206 and part.body == whole.body[8:16]
    assert ada.call("GET", path, headers={"If-None-Match": whole.headers["etag"]}).status == 304
    assert ada.call("GET", f"/v1/jobs/{job['id']}/artifacts/..%2f..%2fservice.db").status in (404, 422)
    assert ada.call("DELETE", f"/v1/jobs/{job['id']}").status == 204
    assert ada.call("GET", path).status == 404


def _events(client: Client, job: str, **headers: str) -> list[tuple[str, str, Any]]:
    text = client.call("GET", f"/v1/jobs/{job}/events", headers=headers).body.decode()
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append((fields["event"], fields["id"], json.loads(fields["data"])))
    return found


def test_events_tell_a_job_to_its_end_and_can_be_taken_up_again(ada: Client) -> None:
    job = ada.call("POST", "/v1/jobs", {"kind": "compile", "model": ada.upload(model_bytes()), "target": "cpu"}).json
    events = _events(ada, job["id"])
    statuses = [data["status"] for kind, _, data in events if kind == "status"]
    assert statuses[-1] == "completed" and set(statuses) <= {"waiting", "running", "completed"}
    assert events[-1][0] == "result" and events[-1][2]["artifacts"]
    assert any(kind == "stage" for kind, _, _ in events)
    again = _events(ada, job["id"], **{"Last-Event-ID": events[-1][1]})
    assert not [kind for kind, _, _ in again if kind == "log"] and again[-1] == events[-1]


def test_a_model_that_is_none_fails_with_the_reason(ada: Client) -> None:
    job = ada.run("compile", ada.upload(b"no model at all" * 10), target="cpu")
    assert job["status"] == "failed" and job["reason"].startswith(
        "model (150 bytes) is not an ONNX model"
    )  # and not where it lay
    report = ada.call("GET", f"/v1/jobs/{job['id']}/artifacts/report.json").json
    assert "is not an ONNX model" in report["unsupported"][0]["reason"]


def test_owners_do_not_see_each_other(ada: Client, service: Service) -> None:
    eve = Client.of(service, "api-eve")
    model = ada.upload(model_bytes())
    job = ada.run("compile", model, target="cpu")
    assert eve.call("GET", f"/v1/models/{model}").status == 404
    assert eve.call("DELETE", f"/v1/models/{model}").status == 404
    assert eve.call("POST", "/v1/jobs", {"kind": "compile", "model": model, "target": "cpu"}).status == 422
    for method, path in (("GET", ""), ("POST", "/cancel"), ("DELETE", ""), ("GET", "/log"), ("GET", "/events")):
        assert eve.call(method, f"/v1/jobs/{job['id']}{path}").status == 404
    assert eve.call("GET", f"/v1/jobs/{job['id']}/artifacts/model.tw").status == 404
    assert eve.call("GET", "/v1/jobs").json == {"items": []}


def test_lists_come_in_pages(service: Service) -> None:
    client = Client.of(service, "api-pages")
    names = [f"{number}.onnx" for number in range(5)]
    for name in names:
        client.upload(name.encode(), name)
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.call("GET", "/v1/models", limit=2, **cursor).json
        found += [one["name"] for one in page["items"]]
        if "cursor" not in page:
            break
        cursor = {"cursor": page["cursor"]}
    assert found == names[::-1]
    for number in range(3):
        client.call("POST", "/v1/jobs", {"kind": "compile", "model": client.upload(b"x"), "target": "cpu"})
        assert len(client.call("GET", "/v1/jobs").json["items"]) == number + 1
    page = client.call("GET", "/v1/jobs", limit=2).json
    assert len(page["items"]) == 2
    rest = client.call("GET", "/v1/jobs", limit=2, cursor=page["cursor"]).json
    assert len(rest["items"]) == 1 and "cursor" not in rest
    for job in page["items"] + rest["items"]:
        client.ended(job["id"])
    assert len(client.call("GET", "/v1/jobs", status="failed").json["items"]) == 3


def test_a_job_is_cancelled_within_two_seconds(service: Service) -> None:
    client = Client.of(service, "api-cancel")
    model = client.upload(model_bytes())
    job = client.call("POST", "/v1/jobs", {"kind": "compile", "model": model, "target": "cpu"}).json
    with contextlib.suppress(AssertionError):
        while client.call("GET", f"/v1/jobs/{job['id']}").json["status"] == "waiting":
            time.sleep(0.02)
    start = time.monotonic()
    assert client.call("POST", f"/v1/jobs/{job['id']}/cancel").status == 200
    assert client.ended(job["id"])["status"] in ("stopped", "completed")
    assert time.monotonic() - start < 5  # two seconds by themselves, on a machine that is busy


@pytest.mark.parametrize(
    ("change", "at"),
    [
        ({"kind": "bake"}, "body/kind"),
        ({"target": ""}, "body/target"),
        ({"options": {"shapes": {"x": [0]}}}, "body/options/shapes/x/0"),
        ({"options": {"other": 1}}, "body/options"),
        ({"model": "../../etc/passwd"}, "body/model"),
        ({"extra": 1}, "body"),
    ],
)
def test_jobs_that_break_the_schema(ada: Client, change: dict[str, Any], at: str) -> None:
    reply = ada.call("POST", "/v1/jobs", {"kind": "compile", "model": "0" * 32, "target": "cpu"} | change)
    assert reply.status == 422 and [one["at"] for one in reply.json["errors"]] == [at], reply.body


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/v1/jobs", b"{", {"Content-Type": "application/json"}, 400),
        ("POST", "/v1/jobs", b"[" * 100_000, {"Content-Type": "application/json"}, 400),
        ("POST", "/v1/jobs", b"{}", {"Content-Type": "text/plain"}, 415),
        ("POST", "/v1/jobs", b" " * (2 << 20), {"Content-Type": "application/json"}, 413),
        ("GET", "/v1/jobs?limit=0", None, {}, 422),
        ("GET", "/v1/jobs?limit=1&limit=2", None, {}, 422),
        ("GET", "/v1/jobs?cursor=W10=", None, {}, 422),
        ("GET", "/v1/jobs?other=1", None, {}, 422),
        ("GET", "/v1/jobs/nothing", None, {}, 422),
        ("PUT", "/v1/jobs", b"", {}, 405),
        ("POST", "/v1/models", b"", {}, 422),
        ("POST", "/v1/models?name=a%2Fb", b"x", {}, 422),
        ("GET", "/v1/models", None, {"Authorization": "Bearer tw_wrong"}, 401),
        ("GET", "/v1/models", None, {"Authorization": "Basic eDp5"}, 401),
    ],
)
def test_requests_that_are_refused(
    ada: Client, method: str, path: str, body: bytes | None, headers: dict[str, str], status: int
) -> None:
    client = Client(ada.service, ada.key)  # whose paths have queries
    reply = client.call(method, path, body, headers)
    assert reply.status == status, reply.body
    assert reply.headers["content-type"] == "application/problem+json" and reply.json["status"] == status


def test_a_target_that_is_unknown_or_elsewhere(ada: Client) -> None:
    model = ada.upload(model_bytes())
    reply = ada.call("POST", "/v1/jobs", {"kind": "compile", "model": model, "target": "z80"})
    assert reply.status == 422 and "unknown target 'z80'" in reply.json["detail"]
    reply = ada.call("POST", "/v1/jobs", {"kind": "verify", "model": model, "target": "raspberry-pi-4"})
    assert reply.status == 422 and "does not run on this service's processor" in reply.json["detail"]


def test_targets_are_listed_with_reasons(ada: Client) -> None:
    targets = {one["name"]: one for one in ada.call("GET", "/v1/targets").json}
    assert {"cpu", "x86-64-v3", "raspberry-pi-4", "c-cortex-m4", "wasm", "opencl", "vta"} <= targets.keys()
    assert targets["cpu"]["runs_here"] and targets["c"]["artifact"] == "model.c"
    assert all(bool(one["reason"]) != one["available"] for one in targets.values())


def test_the_document_is_one(ada: Client) -> None:
    validator = pytest.importorskip("openapi_spec_validator", reason="openapi-spec-validator is not installed")
    validator.validate(ada.document)
    assert io.BytesIO(json.dumps(ada.document).encode()).getbuffer().nbytes < 100_000
