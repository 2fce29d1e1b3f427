"""The five compilation operations on jobs of the store: what a request makes, and what an answer has.

Fields and errors are those of SageMaker's model. A job's location of results is below its S3OutputLocation:
`NAME-TARGET.tar.gz`, with the artifact in it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from tilewright.errors import InputError
from tilewright.service.jobs.locations import Locations
from tilewright.service.jobs.quotas import QuotaExceeded, admission
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import COMPLETED, ENDED, NameTaken, Page, Store, TooManyJobs
from tilewright.service.jobs.tables import Job
from tilewright.service.neo import errors
from tilewright.service.neo.shapes import check_request
from tilewright.service.neo.targets import input_shapes, target_of

_ORDERS = {"Name": "name", "CreationTime": "created", "Status": "status"}
_TIMES = {"CreationTimeAfter": ("created", 1), "CreationTimeBefore": ("created", -1),
          "LastModifiedTimeAfter": ("modified", 1), "LastModifiedTimeBefore": ("modified", -1)}  # fmt: skip
#: Jobs of one answer where the request does not say.
_PAGE = 10


class Operations:
    """SageMaker's compilation operations for one owner at a time."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store, self._settings = store, settings
        self._locations = Locations(settings)
        self._known: dict[str, Callable[[str, Mapping[str, Any]], dict[str, Any]]] = {
            "CreateCompilationJob": self._create,
            "DescribeCompilationJob": self._describe,
            "ListCompilationJobs": self._list,
            "StopCompilationJob": self._stop,
            "DeleteCompilationJob": self._delete,
        }

    def answer(self, operation: str, owner: str, request: Any) -> dict[str, Any]:
        """The answer to a request of an owner. Raises a `ServiceError`."""
        handler = self._known.get(operation)
        if handler is None:
            raise errors.UnknownOperation(f"{operation[:100]}: known are {', '.join(self._known)}")
        return handler(owner, check_request(operation, request))

    def _create(self, owner: str, request: Mapping[str, Any]) -> dict[str, Any]:
        name, source = request["CompilationJobName"], request.get("InputConfig")
        if source is None:
            raise errors.ValidationException("InputConfig must be given: this service keeps no model packages")
        if request.get("VpcConfig"):
            raise errors.ValidationException("VpcConfig: this service is in no network of Amazon's; leave it out")
        if request["OutputConfig"].get("KmsKeyId"):
            raise errors.ValidationException("OutputConfig.KmsKeyId: the bucket's own encryption is used; leave it out")
        task = _task(request)
        try:
            self._locations.check(task["model"])
            self._locations.check(task["artifact"])
        except InputError as error:
            raise errors.ValidationException(str(error)) from None
        try:
            admit = admission(self._settings, owner)
            self._store.create(owner, name, request, task, self._settings.jobs_of_owner, admit=admit)
        except NameTaken:
            raise errors.ResourceInUse(f"Compilation job {self._arn(name)} already exists") from None
        except (TooManyJobs, QuotaExceeded) as error:
            raise errors.ResourceLimitExceeded(f"The account-level limit is reached: {error}") from None
        return {"CompilationJobArn": self._arn(name)}

    def _describe(self, owner: str, request: Mapping[str, Any]) -> dict[str, Any]:
        job = self._store.find(owner, request["CompilationJobName"])
        if job is None:
            raise self._missing(request)
        asked, made = job.request, job.result if job.status == COMPLETED else {}
        answer = {
            "CompilationJobName": job.name,
            "CompilationJobArn": self._arn(job.name),
            "CompilationJobStatus": job.status,
            "CompilationStartTime": job.started,
            "CompilationEndTime": job.ended,
            "StoppingCondition": asked["StoppingCondition"],
            "ModelPackageVersionArn": asked.get("ModelPackageVersionArn"),
            "CreationTime": job.created,
            "LastModifiedTime": job.modified,
            "FailureReason": job.reason,
            "ModelArtifacts": {"S3ModelArtifacts": made.get("location", "")},
            "RoleArn": asked["RoleArn"],
            "InputConfig": asked["InputConfig"],
            "OutputConfig": asked["OutputConfig"],
        }
        if made:
            answer["ModelDigests"] = {"ArtifactDigest": made["digest"]}
            answer["DerivedInformation"] = {"DerivedDataInputConfig": json.dumps(made["inputs"])}
        return {name: value for name, value in answer.items() if value is not None}

    def _list(self, owner: str, request: Mapping[str, Any]) -> dict[str, Any]:
        order = _ORDERS[request.get("SortBy") or "CreationTime"]
        limit = request.get("MaxResults") or _PAGE
        token = request.get("NextToken")
        descending = (request.get("SortOrder") or "Ascending") == "Descending"
        wanted = Page(_conditions(request), order, descending, limit + 1, _position(token) if token else None)
        jobs = self._store.page(owner, wanted)
        answer: dict[str, Any] = {"CompilationJobSummaries": [self._summary(job) for job in jobs[:limit]]}
        if len(jobs) > limit:
            last = jobs[limit - 1]
            position = json.dumps([getattr(last, order), last.id])
            answer["NextToken"] = base64.urlsafe_b64encode(position.encode()).decode()
        return answer

    def _summary(self, job: Job) -> dict[str, Any]:
        output = job.request["OutputConfig"]
        platform = output.get("TargetPlatform") or {}
        summary = {
            "CompilationJobName": job.name,
            "CompilationJobArn": self._arn(job.name),
            "CreationTime": job.created,
            "CompilationStartTime": job.started,
            "CompilationEndTime": job.ended,
            "CompilationTargetDevice": output.get("TargetDevice"),
            "CompilationTargetPlatformOs": platform.get("Os"),
            "CompilationTargetPlatformArch": platform.get("Arch"),
            "CompilationTargetPlatformAccelerator": platform.get("Accelerator"),
            "LastModifiedTime": job.modified,
            "CompilationJobStatus": job.status,
        }
        return {name: value for name, value in summary.items() if value is not None}

    def _stop(self, owner: str, request: Mapping[str, Any]) -> dict[str, Any]:
        job = self._store.find(owner, request["CompilationJobName"])
        if job is None:
            raise self._missing(request)
        if job.status in ENDED:
            raise errors.ValidationException(f"The compilation job has ended: its status is {job.status}")
        self._store.stop(owner, job.name)
        return {}

    def _delete(self, owner: str, request: Mapping[str, Any]) -> dict[str, Any]:
        deleted = self._store.delete(owner, request["CompilationJobName"])
        if deleted is None:
            raise self._missing(request)
        if not deleted:
            raise errors.ValidationException("The compilation job has not ended: stop it first")
        return {}

    def _missing(self, request: Mapping[str, Any]) -> errors.ServiceError:
        return errors.ResourceNotFound(f"Could not find compilation job {self._arn(request['CompilationJobName'])}")

    def _arn(self, name: str) -> str:
        return f"arn:aws:sagemaker:{self._settings.region}:{self._settings.account}:compilation-job/{name}"


def _task(request: Mapping[str, Any]) -> dict[str, Any]:
    """The task of a worker for a request. The artifact is named as Neo does: the model, then the device."""
    source, output = request["InputConfig"], request["OutputConfig"]
    chosen, platform = target_of(output), output.get("TargetPlatform") or {}
    device = output.get("TargetDevice") or "_".join(filter(None, map(platform.get, ("Os", "Arch", "Accelerator"))))
    stem = PurePosixPath(urlsplit(source["S3Uri"]).path).name.partition(".")[0] or request["CompilationJobName"]
    return {
        "model": source["S3Uri"],
        "artifact": f"{output['S3OutputLocation'].rstrip('/')}/{stem}-{device}.tar.gz",
        "framework": source["Framework"],
        "target": chosen.target,
        "precision": chosen.precision,
        "shapes": input_shapes(source.get("DataInputConfig")),
        "seconds": request["StoppingCondition"].get("MaxRuntimeInSeconds") or 0,
    }


def _conditions(request: Mapping[str, Any]) -> tuple[Any, ...]:
    """The conditions on jobs that a list is asked with."""
    found: list[Any] = [~Job.name.startswith("/")]  # of our own API
    for name, (column, sign) in _TIMES.items():
        if request.get(name) is not None:
            value = getattr(Job, column)
            found.append(value > request[name] if sign > 0 else value < request[name])
    if request.get("NameContains"):
        found.append(Job.name.contains(request["NameContains"], autoescape=True))
    if request.get("StatusEquals"):
        found.append(Job.status == request["StatusEquals"])
    return tuple(found)


def _position(token: str) -> tuple[Any, str]:
    """The job that a page begins behind."""
    try:
        value, last = json.loads(base64.urlsafe_b64decode(token.encode()))
        if isinstance(value, str | int | float) and isinstance(last, str):
            return value, last
    except ValueError:
        pass
    raise errors.ValidationException("NextToken is not one that this service returned")
