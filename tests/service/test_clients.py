"""Clients of SageMaker as they are: boto3, its paginator and awscli, and every member that their model has."""

from __future__ import annotations

import copy
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.conftest import Service
from tests.service.test_neo import _ended, _model, _request

#: Names of other services' resources, which pass the patterns of the model.
KEY = "arn:aws:kms:us-east-1:000000000000:key/1"
PACKAGE = "arn:aws:sagemaker:us-east-1:000000000000:model-package/p/1"
FULL: dict[str, Any] = {
    "CompilationJobName": "full",
    "RoleArn": "arn:aws:iam::000000000000:role/compiler",
    "ModelPackageVersionArn": PACKAGE,
    "InputConfig": {"S3Uri": "s3://b/m", "DataInputConfig": "[[1]]", "Framework": "PYTORCH", "FrameworkVersion": "2.0"},
    "OutputConfig": {
        "S3OutputLocation": "s3://b/out",
        "TargetDevice": "lambda",
        "TargetPlatform": {"Os": "LINUX", "Arch": "X86_64", "Accelerator": "NVIDIA"},
        "CompilerOptions": '{"mcpu": "haswell"}',
        "KmsKeyId": KEY,
    },
    "VpcConfig": {"SecurityGroupIds": ["sg-1"], "Subnets": ["subnet-1"]},
    "StoppingCondition": {"MaxRuntimeInSeconds": 900, "MaxWaitTimeInSeconds": 900, "MaxPendingTimeInSeconds": 7200},
    "Tags": [{"Key": "team", "Value": "vision"}],
}  # fmt: skip
#: What this service refuses although the model allows it.
REFUSED = {"OutputConfig.TargetPlatform", "OutputConfig.KmsKeyId", "VpcConfig"}


@pytest.fixture(scope="module")
def shapes() -> Any:
    session = pytest.importorskip("botocore.session", reason="the extra [serve] is not installed").get_session()
    return session.get_service_model("sagemaker").operation_model("CreateCompilationJob").input_shape


def _members(shape: Any, value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any, bool]]:
    """The path, shape and necessity of every member, structures and their members."""
    if shape.type_name == "structure":
        for name, member in shape.members.items():
            assert name in value, f"botocore has the new member {name}"
            yield (*path, name), member, name in shape.required_members
            yield from _members(member, value[name], (*path, name))
    elif shape.type_name == "list":
        yield from _members(shape.member, value[0], (*path, 0))


def _changed(request: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(request)
    holder: Any = made
    for part in path[:-1]:
        holder = holder.setdefault(part, {}) if isinstance(holder, dict) else holder[part]
    if value is None:
        holder.pop(path[-1], None)
    else:
        holder[path[-1]] = value
    return made


def _base() -> dict[str, Any]:
    made = copy.deepcopy(FULL)
    for path in sorted(REFUSED):
        made = _changed(made, tuple(path.split(".")), None)
    return made


def _breaking(shape: Any) -> list[Any]:
    """Values that break a constraint of a shape."""
    found: list[Any] = []
    most, least, kind = shape.metadata.get("max"), shape.metadata.get("min"), shape.type_name
    if kind in ("integer", "long"):
        return [least - 1, *([most + 1] if most else [])]
    if kind == "string":
        found += ["NONE-OF-THEM"] if shape.enum else []
        found += ["a" * (most + 1)] if most else []
        if (
            shape.metadata.get("pattern")
            and "[\\S\\s]" not in shape.metadata["pattern"]
            and shape.metadata["pattern"] != ".*"
        ):
            found.append("\u0000 ")
    if kind == "list" and most:
        found.append(
            [
                {"Key": f"k{i}", "Value": ""} if shape.member.type_name == "structure" else f"x{i}"
                for i in range(most + 1)
            ]
        )
    return found


@pytest.fixture
def answer(tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """A function that creates a job, and stops it: the code of the error, or nothing. No worker is there."""
    pytest.importorskip("alembic", reason="the extra [serve] is not installed")
    from tilewright.service.app import open_store
    from tilewright.service.jobs.settings import Settings
    from tilewright.service.neo.errors import ServiceError
    from tilewright.service.neo.operations import Operations

    settings = Settings(tmp_path / "state")
    operations = Operations(open_store(settings), settings)

    def create(request: dict[str, Any]) -> str:
        try:
            operations.answer("CreateCompilationJob", "ada", request)
        except ServiceError as error:
            assert error.status == 400 and str(error)
            return error.code
        operations.answer("StopCompilationJob", "ada", {"CompilationJobName": request["CompilationJobName"]})
        return ""

    return create


def test_every_member_is_accepted_or_refused_with_the_modelled_error(
    shapes: Any, answer: Callable[[dict[str, Any]], str]
) -> None:
    assert answer(_base()) == ""
    for count, (path, shape, required) in enumerate(_members(shapes, FULL)):
        name = ".".join(map(str, path))
        request = _changed(_base(), ("CompilationJobName",), f"member-{count}")
        refused = next((one for one in REFUSED if f"{name}.".startswith(f"{one}.")), None)
        if refused:
            value = functools.reduce(lambda holder, part: holder[part], refused.split("."), FULL)
            request = _changed(request, tuple(refused.split(".")), value)
            assert answer(request) == "ValidationException", name
        elif not required and name not in ("InputConfig", "OutputConfig.TargetDevice"):
            assert answer(_changed(request, path, None)) == "", name
        if required:
            assert answer(_changed(request, path, None)) == "ValidationException", name
        for value in _breaking(shape):
            assert answer(_changed(request, path, value)) == "ValidationException", (name, value)


def test_every_device_framework_and_platform_is_accepted_or_refused_with_the_reason(
    shapes: Any, answer: Callable[[dict[str, Any]], str]
) -> None:
    output = shapes.members["OutputConfig"]
    platform = output.members["TargetPlatform"].members
    outputs: list[dict[str, Any]] = [{"TargetDevice": device} for device in output.members["TargetDevice"].enum]
    assert len(outputs) == 37
    for system in platform["Os"].enum:
        for arch in platform["Arch"].enum:
            for accelerator in (None, *platform["Accelerator"].enum):
                chosen = {"Os": system, "Arch": arch} | ({"Accelerator": accelerator} if accelerator else {})
                outputs.append({"TargetPlatform": chosen})
    found: dict[bool, int] = {True: 0, False: 0}
    for count, chosen in enumerate(outputs):
        request = _base() | {"CompilationJobName": f"device-{count}"}
        request["OutputConfig"] = {"S3OutputLocation": "s3://b/out", **chosen}
        found[answer(request) == ""] += 1
    assert found[True] > 18 and sum(found.values()) == len(outputs)
    for framework in shapes.members["InputConfig"].members["Framework"].enum:
        request = _changed(_base(), ("InputConfig", "Framework"), framework)
        assert answer(request | {"CompilationJobName": f"of-{framework}"}) == ""


def test_the_paginator_meets_every_job_once(service: Service) -> None:
    pytest.importorskip("boto3", reason="boto3 is not installed")
    client = _boto3(service, "sagemaker", "pages")
    request = _request(service, "p")
    for number in range(260):
        service.store.create("pages", f"p-{number:03}", request, {}, 1000)
        service.store.stop("pages", f"p-{number:03}")
    for order in ("Name", "CreationTime", "Status"):
        pages = client.get_paginator("list_compilation_jobs").paginate(
            SortBy=order, SortOrder="Descending", PaginationConfig={"PageSize": 17}
        )
        names = [job["CompilationJobName"] for page in pages for job in page["CompilationJobSummaries"]]
        assert len(names) == 260 and len(set(names)) == 260
    found = client.list_compilation_jobs(NameContains="p-25", MaxResults=100)["CompilationJobSummaries"]
    assert sorted(job["CompilationJobName"] for job in found) == [f"p-25{number}" for number in range(10)]


def _boto3(service: Service, name: str, owner: str, **more: Any) -> Any:
    import boto3

    key, secret = service.store.add_key(owner)
    given = {"endpoint_url": service.url, "region_name": "us-east-1", **more}
    return boto3.client(name, aws_access_key_id=key, aws_secret_access_key=secret, **given)


def test_boto3_does_all_five_operations(service: Service) -> None:
    pytest.importorskip("boto3", reason="boto3 is not installed")
    _model(service.shared / "model.onnx")
    client = _boto3(service, "sagemaker", "boto")
    client.create_compilation_job(**_request(service, "boto"))
    done = _ended(client, "boto")
    assert done["CompilationJobStatus"] == "COMPLETED", done["FailureReason"]
    assert [job["CompilationJobName"] for job in client.list_compilation_jobs()["CompilationJobSummaries"]] == ["boto"]
    with pytest.raises(client.exceptions.ClientError, match="has ended"):
        client.stop_compilation_job(CompilationJobName="boto")
    client.delete_compilation_job(CompilationJobName="boto")
    time.sleep(1.1)  # an equal request of the same second has the same signature, and is refused for that
    with pytest.raises(client.exceptions.ResourceNotFound):
        client.delete_compilation_job(CompilationJobName="boto")


def test_awscli_does_all_five_operations(service: Service, tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "aws"
    if not program.exists():
        pytest.skip("awscli is not installed")
    _model(service.shared / "model.onnx")
    key, secret = service.store.add_key("cli")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AWS_DEFAULT_REGION": "us-east-1",
                   "AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret}  # fmt: skip

    def aws(verb: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [program, "sagemaker", verb, "--endpoint-url", service.url, "--output", "json", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    named = ("--compilation-job-name", "cli")
    request = json.dumps(_request(service, "cli"))
    made = aws("create-compilation-job", "--cli-input-json", request)
    assert json.loads(made.stdout)["CompilationJobArn"].endswith("compilation-job/cli"), made.stderr
    again = aws("create-compilation-job", "--cli-input-json", request)
    assert again.returncode in (254, 255) and "(ResourceInUse)" in again.stderr
    while (found := json.loads(aws("describe-compilation-job", *named).stdout))["CompilationJobStatus"] in (
        "STARTING",
        "INPROGRESS",
    ):
        pass
    assert found["CompilationJobStatus"] == "COMPLETED" and found["ModelDigests"]["ArtifactDigest"]
    stopped = aws("stop-compilation-job", *named)
    assert stopped.returncode in (254, 255) and "(ValidationException)" in stopped.stderr
    listed = json.loads(aws("list-compilation-jobs").stdout)["CompilationJobSummaries"]
    assert [job["CompilationJobName"] for job in listed] == ["cli"]
    assert aws("delete-compilation-job", *named).returncode == 0
    gone = aws("describe-compilation-job", *named)
    assert gone.returncode in (254, 255) and "(ResourceNotFound)" in gone.stderr


def test_models_and_artifacts_in_object_storage(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service beside the one of these tests, whose storage is moto's."""
    pytest.importorskip("boto3", reason="boto3 is not installed")
    server = pytest.importorskip("moto.server", reason="moto, a local object storage, is not installed")
    from tilewright.service.app import open_store
    from tilewright.service.jobs.settings import Settings
    from tilewright.service.jobs.store import COMPLETED, FAILED
    from tilewright.service.jobs.worker import Worker

    storage = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    storage.start()
    try:
        endpoint = "http://{}:{}".format(*storage.get_host_and_port())
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "x")
        objects = _boto3(service, "s3", "x", endpoint_url=endpoint)
        objects.create_bucket(Bucket="models")
        _model(tmp_path / "m.onnx")
        objects.put_object(Bucket="models", Key="in/m.onnx", Body=(tmp_path / "m.onnx").read_bytes())
        settings = Settings(service.settings.folder / "s3", s3_endpoint=endpoint)
        store = open_store(settings)
        task = {"framework": "ONNX", "target": "llvm", "precision": "float32", "shapes": None, "seconds": 0}
        for name, source in (("right", "in/m.onnx"), ("wrong", "in/none.onnx")):
            named = {"model": f"s3://models/{source}", "artifact": f"s3://models/out/{name}.tar.gz"}
            store.create("ada", name, {}, task | named, 9)
        worker = Worker(store, settings)
        thread = threading.Thread(target=lambda: [worker.run_one() for _ in range(2)])
        thread.start()
        thread.join()
        right, wrong = store.find("ada", "right"), store.find("ada", "wrong")
        assert right is not None and right.status == COMPLETED, right and right.reason
        made = objects.get_object(Bucket="models", Key="out/right.tar.gz")
        assert made["Metadata"]["sha256"] == right.result["digest"]
        assert wrong is not None and wrong.status == FAILED and "NoSuchKey" in wrong.reason
    finally:
        storage.stop()
