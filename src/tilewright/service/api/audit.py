"""`/v1/audit`: who did what, for the owner whose keys it was done with."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tilewright.service.api.operation import Answer, Call, Operation, ref
from tilewright.service.api.paging import CURSOR, LIMIT, cursor_of, position, time_text
from tilewright.service.api.problems import Problem
from tilewright.service.jobs.tables import Action


def _list(call: Call) -> Any:
    limit, after = call.parameters.get("limit", 20), position(call.parameters.get("cursor"))
    query = select(Action).where(Action.owner == call.owner).order_by(Action.id.desc()).limit(limit + 1)
    if after is not None:
        if not isinstance(after[1], int):
            raise Problem(422, "the cursor is none of this list")
        query = query.where(Action.id < after[1])
    with call.store.session(reads=True) as session:
        found = list(session.scalars(query))
    items = [{"time": time_text(one.time), "action": one.action, "subject": one.subject} for one in found[:limit]]
    page: dict[str, Any] = {"items": items}
    if len(found) > limit:
        page["cursor"] = cursor_of(found[limit - 1].time, found[limit - 1].id)
    return page


OPERATIONS = (
    Operation("listActions", "GET", "/v1/audit", "The actions of the owner's keys, the newest first.", _list,
              {200: Answer("A page of them.", ref("Actions"))}, (LIMIT, CURSOR)),
)  # fmt: skip
