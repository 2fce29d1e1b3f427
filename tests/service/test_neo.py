"""SageMaker's compilation API with botocore's client: jobs run, and errors are those of its model."""

from __future__ import annotations

import contextlib
import json
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tilewright as tw
from tests.service.conftest import Service

LAMBDA = {"S3OutputLocation": "s3://b", "TargetDevice": "lambda"}
ROLE = "arn:aws:iam::000000000000:role/compiler"


def _model(path: Path) -> np.ndarray:
    """Two dense layers as ONNX, which are two kernels; the product of their weights."""
    first, second = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((4, 5), (5, 3)))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size]) for name, size in (("x", 4), ("y", 3)))
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    constants = [numpy_helper.from_array(first, "v"), numpy_helper.from_array(second, "w")]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return first @ second


def _request(service: Service, name: str, **output: Any) -> dict[str, Any]:
    return {
        "CompilationJobName": name,
        "RoleArn": ROLE,
        "InputConfig": {
            "S3Uri": f"file://{service.shared}/model.onnx",
            "Framework": "ONNX",
            "DataInputConfig": '{"x": [2, 4]}',
        },
        "OutputConfig": {"S3OutputLocation": f"file://{service.shared}/out", **(output or {"TargetDevice": "lambda"})},
        "StoppingCondition": {"MaxRuntimeInSeconds": 300},
    }


def _ended(client: Any, name: str) -> dict[str, Any]:
    while True:
        found: dict[str, Any] = client.describe_compilation_job(CompilationJobName=name)
        if found["CompilationJobStatus"] not in ("STARTING", "INPROGRESS", "STOPPING"):
            return found
        time.sleep(0.05)


def test_a_job_from_a_model_to_an_artifact_that_computes_the_same(service: Service, tmp_path: Path) -> None:
    weights = _model(service.shared / "model.onnx")
    client = service.client()
    arn = client.create_compilation_job(**_request(service, "first"))["CompilationJobArn"]
    assert arn == "arn:aws:sagemaker:us-east-1:000000000000:compilation-job/first"
    done = _ended(client, "first")
    assert done["CompilationJobStatus"] == "COMPLETED", done["FailureReason"]
    assert json.loads(done["DerivedInformation"]["DerivedDataInputConfig"]) == {"x": [2, 4]}
    assert done["CreationTime"] <= done["CompilationStartTime"] <= done["CompilationEndTime"]
    location = done["ModelArtifacts"]["S3ModelArtifacts"]
    assert location == f"file://{service.shared}/out/model-lambda.tar.gz"
    with tarfile.open(location.removeprefix("file://")) as archive:
        archive.extractall(tmp_path, filter="data")
    x = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_allclose(tw.load(tmp_path / "model.tw")(x), x @ weights, rtol=1e-4, atol=1e-4)
    summary = client.list_compilation_jobs(NameContains="first")["CompilationJobSummaries"][0]
    assert summary["CompilationTargetDevice"] == "lambda" and summary["CompilationJobStatus"] == "COMPLETED"
    assert not client.list_compilation_jobs(NameContains="first", StatusEquals="FAILED")["CompilationJobSummaries"]
    with pytest.raises(client.exceptions.ResourceInUse, match="first already exists"):
        client.create_compilation_job(**_request(service, "first"))
    client.delete_compilation_job(CompilationJobName="first")
    with pytest.raises(client.exceptions.ResourceNotFound, match="compilation-job/first"):
        client.describe_compilation_job(CompilationJobName="first")


def test_a_model_that_is_none_fails_with_the_reason(service: Service) -> None:
    (service.shared / "bad.onnx").write_bytes(b"no model at all" * 10)
    client = service.client()
    request = _request(service, "bad")
    request["InputConfig"]["S3Uri"] = f"file://{service.shared}/bad.onnx"
    client.create_compilation_job(**request)
    done = _ended(client, "bad")
    assert done["CompilationJobStatus"] == "FAILED"
    assert done["FailureReason"].startswith("ClientError: ")


def test_names_of_no_characters_end_a_job_and_no_worker(service: Service) -> None:
    with tarfile.open(service.shared / "names.tar", "w") as archive:
        for name in ("\udcff.onnx", "model.onnx"):
            archive.addfile(tarfile.TarInfo(name))
    client = service.client()
    for name in ("names", "again"):  # the one worker is there for the second
        request = _request(service, name)
        request["InputConfig"]["S3Uri"] = f"file://{service.shared}/names.tar"
        client.create_compilation_job(**request)
        assert "several models: model.onnx, ?.onnx" in _ended(client, name)["FailureReason"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"CompilationJobName": "a b"}, r"regular expression pattern: \[a-zA-Z0-9\]"),
        ({"CompilationJobName": "a" * 64}, "length less than or equal to 63"),
        ({"RoleArn": "arn:aws:iam::1:role/short-number"}, "'roleArn'"),
        ({"InputConfig": {"S3Uri": "s3://b/m", "Framework": "CAFFE"}}, r"enum value set: \[TENSORFLOW"),
        ({"InputConfig": {"S3Uri": "file:///etc/passwd", "Framework": "ONNX"}}, "in no folder that this service"),
        ({"InputConfig": {"S3Uri": f"file://SHARED/{'x' * 300}", "Framework": "ONNX"}}, "is no file's name: File name"),
        ({"OutputConfig": {"S3OutputLocation": "s3://b", "TargetDevice": "ml_inf1"}}, "maker's compiler"),
        ({"OutputConfig": {"S3OutputLocation": "s3://b"}}, "one of TargetDevice and TargetPlatform"),
        ({"OutputConfig": LAMBDA | {"CompilerOptions": '{"x": "y"}'}}, "known: mcpu"),
        ({"OutputConfig": LAMBDA | {"CompilerOptions": '{"mcpu": "z80"}'}}, "unknown processor 'z80'"),
        ({"StoppingCondition": {"MaxPendingTimeInSeconds": 5}}, "greater than or equal to 1800"),
        ({"Tags": [{"Key": "a;b", "Value": ""}]}, "tags.1.member.key"),
    ],
)  # fmt: skip
def test_requests_that_break_a_constraint(service: Service, change: dict[str, Any], message: str) -> None:
    client = service.client(checked=False)
    request = json.loads(json.dumps(_request(service, "refused") | change).replace("SHARED", str(service.shared)))
    with pytest.raises(client.exceptions.ClientError, match=message) as found:
        client.create_compilation_job(**request)
    assert found.value.response["Error"]["Code"] == "ValidationException"
    assert found.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_owners_do_not_see_each_other_and_have_limits(service: Service) -> None:
    client, other = service.client("bob"), service.client("eve")
    with pytest.raises(client.exceptions.ResourceLimitExceeded):
        for number in range(8):
            client.create_compilation_job(**_request(service, f"many-{number}"))
    with pytest.raises(other.exceptions.ResourceNotFound):
        other.stop_compilation_job(CompilationJobName="many-0")
    pages = client.get_paginator("list_compilation_jobs").paginate(
        SortBy="Name", SortOrder="Descending", PaginationConfig={"PageSize": 3}
    )
    names = [job["CompilationJobName"] for page in pages for job in page["CompilationJobSummaries"]]
    assert names == sorted(names, reverse=True) and len(names) >= 4
    assert not other.list_compilation_jobs()["CompilationJobSummaries"]
    start = time.monotonic()
    for name in names:
        with contextlib.suppress(client.exceptions.ClientError):  # those that ended meanwhile
            client.stop_compilation_job(CompilationJobName=name)
    assert {_ended(client, name)["CompilationJobStatus"] for name in names} <= {"STOPPED", "COMPLETED"}
    assert time.monotonic() - start < 20
