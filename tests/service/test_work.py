"""Jobs of the kinds beside compile: what they leave, and how they end where the request is at fault."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.service.conftest import Service

pytest.importorskip("jsonschema", reason="the extra [serve] is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from tests.service.client import Client
from tests.service.test_api import model_bytes


@pytest.fixture(scope="module")
def bob(service: Service) -> Client:
    """A client."""
    return Client.of(service, "work-bob")


def _artifact(client: Client, job: str, name: str) -> bytes:
    reply = client.call("GET", f"/v1/jobs/{job}/artifacts/{name}")
    assert reply.status == 200
    return reply.body


def test_verify_compares_with_an_engine(bob: Client) -> None:
    job = bob.run("verify", bob.upload(model_bytes()), options={"seed": 3})
    assert job["status"] == "completed", job["reason"]
    (output,) = job["result"]["outputs"]
    assert job["result"]["passed"] and job["result"]["against"] == "onnxruntime"
    assert output["name"] == "y" and output["error"] < 1e-4 * output["scale"]
    assert "against onnxruntime" in bob.call("GET", f"/v1/jobs/{job['id']}/log").body.decode()


def test_verify_says_where_results_differ(bob: Client) -> None:
    options = {"rtol": 0, "atol": 0, "seed": 3}
    job = bob.run("verify", bob.upload(model_bytes(inner=2000)), options=options)
    assert job["status"] == "completed" and job["result"]["passed"] is False, job["reason"]


def test_profile_times_each_kernel(bob: Client) -> None:
    job = bob.run("profile", bob.upload(model_bytes()), options={"repeat": 3})
    assert job["status"] == "completed", job["reason"]
    kernels = json.loads(_artifact(bob, job["id"], "profile.json"))["kernels"]
    assert len(kernels) == job["result"]["kernels"] and all(kernel["seconds"] > 0 for kernel in kernels)
    assert {kernel["flops"] for kernel in kernels} == {80, 60}
    assert json.loads(_artifact(bob, job["id"], "report.json"))["measured"]


def test_quantize_after_samples_and_of_weights_alone(bob: Client, tmp_path: Path) -> None:
    samples = io.BytesIO()
    np.savez(samples, x=np.random.default_rng(0).standard_normal((16, 2, 4)).astype(np.float32))
    data = bob.upload(samples.getvalue(), "samples.npz")
    job = bob.run("quantize", bob.upload(model_bytes()), options={"data": data})
    assert job["status"] == "completed", job["reason"]
    assert {one["name"] for one in job["artifacts"]} == {"model.tw", "recipe.json"}
    (tmp_path / "model.tw").write_bytes(_artifact(bob, job["id"], "model.tw"))
    assert tw.load(tmp_path / "model.tw")(np.zeros((2, 4), np.float32)).shape == (2, 3)
    job = bob.run("quantize", bob.upload(model_bytes()))
    assert job["status"] == "failed" and "takes data, the id of samples, or weights" in job["reason"]


def test_tune_leaves_records_that_compile_takes(bob: Client) -> None:
    model = bob.upload(model_bytes())
    job = bob.run("tune", model, options={"trials": 4})
    assert job["status"] == "completed", job["reason"]
    records = bob.upload(_artifact(bob, job["id"], "records.jsonl"), "records.jsonl")
    again = bob.run("compile", model, target="cpu", options={"records": records})
    assert again["status"] == "completed", again["reason"]


def test_a_verb_that_fails_says_why(bob: Client) -> None:
    job = bob.run("verify", bob.upload(model_bytes()), options={"against": "nobody"})
    assert job["status"] == "failed" and "nobody" in job["reason"]
