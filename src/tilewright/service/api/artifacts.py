"""`/v1/jobs/{id}/artifacts/{name}`: the files that a job made, whole or in ranges, with their digest as ETag."""

from __future__ import annotations

from starlette.responses import FileResponse, Response

from tilewright.service.api.jobs import JOB_ID, job_of
from tilewright.service.api.operation import BYTES, Answer, Call, Operation, Parameter
from tilewright.service.api.problems import missing
from tilewright.service.api.schemas import NAME


def _read(call: Call) -> Response:
    job, name = job_of(call), call.parameters["name"]
    made = next((one for one in job.result.get("artifacts", []) if one["name"] == name), None)
    path = call.settings.artifacts_folder / job.id / name
    if made is None or not path.is_file():
        raise missing("artifact", name)
    etag = f'"{made["sha256"]}"'
    headers = {
        "ETag": etag, "Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }  # fmt: skip
    wanted = [one.strip().removeprefix("W/") for one in call.request.headers.get("if-none-match", "").split(",")]
    if etag in wanted or "*" in wanted:
        return Response(status_code=304, headers=headers)
    return FileResponse(path, 200, headers, made["media_type"], filename=name)


OPERATIONS = (
    Operation(
        "readArtifact", "GET", "/v1/jobs/{id}/artifacts/{name}", "A file that a job made.", _read,
        {
            200: Answer("Its bytes.", None, BYTES, {"ETag": "its digest"}),
            206: Answer("The range of bytes that is wanted.", None, BYTES, {"ETag": "its digest"}),
            304: Answer("It is the one of If-None-Match.", media_type=None),
            416: Answer("It has no such range.", {"type": "string"}, "text/plain"),
        },
        (JOB_ID, Parameter("name", "path", NAME, "of the artifact", required=True)),
    ),
)  # fmt: skip
