"""`/v1/devices`: the devices of the service's fleet by key, which jobs that run a model may name."""

from __future__ import annotations

from typing import Any

from tilewright.errors import RpcError
from tilewright.service.api.operation import Answer, Call, Operation, ref
from tilewright.service.api.problems import Problem
from tilewright.service.jobs.fleet import fleet_of

_FREE = "free"


def _list(call: Call) -> Any:
    if call.settings.tracker is None:
        return []
    try:
        known = fleet_of(call.settings).status()["devices"]
    except RpcError as error:
        raise Problem(503, f"the fleet does not answer: {error}", headers={"Retry-After": "10"}) from None
    keys = {(device["key"], device["architecture"]): [0, 0] for device in known}
    for device in known:
        counts = keys[device["key"], device["architecture"]]
        counts[0] += 1
        counts[1] += device["state"] == _FREE
    return [
        {"key": key, "architecture": architecture, "devices": count, "free": free}
        for (key, architecture), (count, free) in sorted(keys.items())
    ]


OPERATIONS = (
    Operation("listDevices", "GET", "/v1/devices", "The devices of the fleet, by key.", _list,
              {200: Answer("All of them.", ref("Devices"))}),
)  # fmt: skip
