"""`/v1/jobs`: work on models, which waits for a worker, runs in a confined process, and ends."""

from __future__ import annotations

import secrets
import shutil
from typing import Any

from starlette.responses import JSONResponse, PlainTextResponse, Response

from tilewright.service.api.operation import TEXT, Answer, Call, Operation, Parameter, ref
from tilewright.service.api.paging import CURSOR, LIMIT, cursor_of, text_position, time_text
from tilewright.service.api.problems import Problem, missing, over_quota
from tilewright.service.api.schemas import ID, KINDS, STATUSES
from tilewright.service.jobs import targets
from tilewright.service.jobs.quotas import QuotaExceeded, admission
from tilewright.service.jobs.store import COMPLETED, ENDED, Page, TooManyJobs
from tilewright.service.jobs.tables import Job
from tilewright.service.jobs.traces import carrier
from tilewright.service.jobs.uploads import find_upload

#: Statuses here by those of the database, which are Amazon's.
STATUS = dict(
    zip(("STARTING", "INPROGRESS", "STOPPING", "COMPLETED", "FAILED", "STOPPED"), STATUSES, strict=True)
)  # fmt: skip
#: Options that name uploads, which the job's process gets as files.
_UPLOADS = ("data", "records")
#: Names of jobs of this API begin so, as those of Amazon's cannot.
_PREFIX = "/"
_MOST_SECONDS_OF_TUNING = 300.0

JOB_ID = Parameter("id", "path", ID, "of a job", required=True)


def described(job: Job) -> dict[str, Any]:
    """A job as JSON."""
    made = dict(job.result) if job.status in ENDED else {}
    return {
        "id": job.id, "kind": job.kind, "model": job.task["upload"], "target": job.request["target"],
        "device": job.task.get("device", ""),
        "options": job.request["options"], "status": STATUS[job.status], "stage": job.stage,
        "progress": 1.0 if job.status == COMPLETED else job.progress,
        "created": time_text(job.created), "started": time_text(job.started), "ended": time_text(job.ended),
        "reason": job.reason.partition(": ")[2] if job.reason.startswith(("ClientError: ", "InternalError: "))
        else job.reason,
        "cpu_seconds": job.cpu_seconds, "artifacts": made.pop("artifacts", []), "result": made,
    }  # fmt: skip


def job_of(call: Call) -> Job:
    """The owner's job that a request names. Raises `Problem`."""
    found = call.store.find(call.owner, _PREFIX + call.parameters["id"])
    if found is None:
        raise missing("job", call.parameters["id"])
    return found


def _create(call: Call) -> Response:
    kind, options = call.body["kind"], call.body.get("options", {})
    device = call.body.get("device", "")
    if device and call.settings.tracker is None:
        raise Problem(422, "device: this service has no fleet of devices; it is started with --tracker HOST:PORT")
    target = call.body.get("target", "" if device else "cpu")
    inputs = {name: options[name] for name in _UPLOADS if name in options}
    for id in (call.body["model"], *inputs.values()):
        if find_upload(call.store, call.owner, id) is None:
            raise Problem(422, f"there is no model {id}: send it by POST /v1/models first")
    chosen = targets.chosen(target or "cpu", kind, bool(device))
    task = {
        "kind": kind, "upload": call.body["model"], "inputs": inputs, "options": options, "framework": "",
        "target": chosen.spelling if target else "", "device": device, "form": chosen.form, "seconds": 0,
        "trace": carrier(),
    }  # fmt: skip
    id = secrets.token_hex(16)
    request = {"target": target, "options": options}
    try:
        admit = admission(call.settings, call.owner)
        job = call.store.create(
            call.owner, _PREFIX + id, request, task, call.settings.jobs_of_owner, kind, admit, id=id
        )  # fmt: skip
    except TooManyJobs as error:
        raise Problem(429, f"the limit of jobs is reached: {error}", headers={"Retry-After": "10"}) from None
    except QuotaExceeded as error:
        raise over_quota(error) from None
    return JSONResponse(described(job), 201, {"Location": f"/v1/jobs/{id}"})


def _list(call: Call) -> Any:
    limit, given = call.parameters.get("limit", 20), call.parameters
    conditions: list[Any] = [Job.name.startswith(_PREFIX)]
    if "status" in given:
        conditions.append(Job.status == next(ours for ours, name in STATUS.items() if name == given["status"]))
    for name in ("kind", "model"):
        if name in given:
            conditions.append((Job.kind if name == "kind" else Job.task["upload"].as_string()) == given[name])
    found = call.store.page(
        call.owner, Page(tuple(conditions), limit=limit + 1, after=text_position(given.get("cursor")))
    )
    page: dict[str, Any] = {"items": [described(job) for job in found[:limit]]}
    if len(found) > limit:
        page["cursor"] = cursor_of(found[limit - 1].created, found[limit - 1].id)
    return page


def _cancel(call: Call) -> Any:
    job = job_of(call)
    if job.status not in ENDED:
        call.store.stop(call.owner, job.name)
    return described(job_of(call))


def _delete(call: Call) -> None:
    job = job_of(call)
    if not call.store.delete(call.owner, job.name):
        raise Problem(409, f"the job is {STATUS[job.status]}: cancel it first")
    shutil.rmtree(call.settings.artifacts_folder / job.id, ignore_errors=True)


def _log(call: Call) -> Response:
    job = job_of(call)
    before = f"… {job.log_start} bytes before\n" if job.log_start else ""
    return PlainTextResponse(before + job.log)


_JOB = {200: Answer("The job.", ref("Job"))}
OPERATIONS = (
    Operation("createJob", "POST", "/v1/jobs", "Have work done on a model.", _create,
              {201: Answer("The job.", ref("Job"), headers={"Location": "its path"})}, body=ref("NewJob")),
    Operation(
        "listJobs", "GET", "/v1/jobs", "The jobs, the newest first.", _list,
        {200: Answer("A page of them.", ref("Jobs"))},
        (LIMIT, CURSOR, Parameter("status", "query", {"enum": STATUSES}, "of the jobs that are wanted"),
         Parameter("kind", "query", {"enum": KINDS}, "of the jobs that are wanted"),
         Parameter("model", "query", ID, "that the jobs are for")),
    ),
    Operation("readJob", "GET", "/v1/jobs/{id}", "A job.", lambda call: described(job_of(call)), _JOB, (JOB_ID,)),
    Operation("cancelJob", "POST", "/v1/jobs/{id}/cancel", "Stop a job; one that has ended stays.", _cancel, _JOB,
              (JOB_ID,)),
    Operation("deleteJob", "DELETE", "/v1/jobs/{id}", "Delete a job that has ended, with its artifacts.", _delete,
              {204: Answer("It is gone.", media_type=None)}, (JOB_ID,)),
    Operation("readLog", "GET", "/v1/jobs/{id}/log", "The end of a job's log.", _log,
              {200: Answer("The text.", {"type": "string"}, TEXT)}, (JOB_ID,)),
)  # fmt: skip
