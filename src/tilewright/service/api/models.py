"""`/v1/models`: files that an owner sends, models first of all; streamed to disk, each with its digest."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from tilewright.errors import InputError
from tilewright.service.api.operation import Answer, Call, Operation, Parameter, ref
from tilewright.service.api.paging import CURSOR, LIMIT, cursor_of, text_position, time_text
from tilewright.service.api.problems import Problem, missing, over_quota
from tilewright.service.api.schemas import ID, NAME
from tilewright.service.jobs.quotas import QuotaExceeded, check_stored
from tilewright.service.jobs.tables import Upload
from tilewright.service.jobs.uploads import Writing, delete_upload, find_upload, list_uploads

_ID = Parameter("id", "path", ID, "of a model", required=True)


def described(model: Upload) -> dict[str, Any]:
    """A model as JSON."""
    return {
        "id": model.id, "name": model.name, "bytes": model.bytes, "sha256": model.sha256, "format": model.format,
        "created": time_text(model.created),
    }  # fmt: skip


async def _create(call: Call) -> Response:
    most = call.settings.model_bytes
    announced = int(call.request.headers.get("content-length", 0))
    if announced > most:
        raise Problem(413, f"a file has {most} bytes at most")
    await _check_quota(call, announced)
    writing = Writing(call.settings.uploads_folder, most)
    try:
        async for part in call.request.stream():
            await run_in_threadpool(writing.add, part)
        if not writing.bytes:
            raise Problem(422, "the body is empty: it is to be the model's file")
        await _check_quota(call, writing.bytes)
        row = await run_in_threadpool(writing.finish, call.store, call.owner, call.parameters.get("name", "model"))
    except InputError as error:
        raise Problem(413, str(error)) from None
    except ClientDisconnect:
        return Response(status_code=400)
    finally:
        writing.drop()
    return JSONResponse(described(row), 201, {"Location": f"/v1/models/{row.id}"})


async def _check_quota(call: Call, more: int) -> None:
    try:
        await run_in_threadpool(check_stored, call.store, call.settings, call.owner, more)
    except QuotaExceeded as error:
        raise over_quota(error) from None


def _list(call: Call) -> Any:
    limit = call.parameters.get("limit", 20)
    found = list_uploads(call.store, call.owner, limit + 1, text_position(call.parameters.get("cursor")))
    page: dict[str, Any] = {"items": [described(one) for one in found[:limit]]}
    if len(found) > limit:
        page["cursor"] = cursor_of(found[limit - 1].created, found[limit - 1].id)
    return page


def _read(call: Call) -> Any:
    found = find_upload(call.store, call.owner, call.parameters["id"])
    if found is None:
        raise missing("model", call.parameters["id"])
    return described(found)


def _delete(call: Call) -> None:
    if not delete_upload(call.store, call.settings, call.owner, call.parameters["id"]):
        raise missing("model", call.parameters["id"])


OPERATIONS = (
    Operation(
        "createModel", "POST", "/v1/models", "Send a model, or samples and records for a job, as the body.", _create,
        {201: Answer("The model.", ref("Model"), headers={"Location": "its path"})},
        (Parameter("name", "query", NAME, "of the file"),), raw=True, waits=True,
    ),
    Operation("listModels", "GET", "/v1/models", "The models, the newest first.", _list,
              {200: Answer("A page of them.", ref("Models"))}, (LIMIT, CURSOR)),
    Operation("readModel", "GET", "/v1/models/{id}", "A model.", _read, {200: Answer("It.", ref("Model"))}, (_ID,)),
    Operation("deleteModel", "DELETE", "/v1/models/{id}", "Delete a model; jobs that wait for it will fail.", _delete,
              {204: Answer("It is gone.", media_type=None)}, (_ID,)),
)  # fmt: skip
