"""The schemas of what requests and answers have, by name."""

from __future__ import annotations

from typing import Any

from tilewright.service.api.problems import PROBLEM
from tilewright.service.jobs.targets import RUNNING

ID = {"type": "string", "pattern": "^[0-9a-f]{32}$", "maxLength": 32}
TIME = {"type": "string", "format": "date-time"}
_MAYBE_TIME = {"type": ["string", "null"], "format": "date-time"}
_DIGEST = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
#: "$" matches before a last line break in Python, so that patterns look for what there may not be.
NAME = {"type": "string", "minLength": 1, "maxLength": 255, "not": {"pattern": "[/\\u0000-\\u001f\\u007f]"}}
KINDS = ["compile", "quantize", "tune", "profile", "verify"]
STATUSES = ["waiting", "running", "stopping", "completed", "failed", "stopped"]

_COUNT = {"type": "integer", "minimum": 1, "maximum": 2**31 - 1}
_SIZE = {
    "oneOf": [_COUNT, {"type": "string", "pattern": "^[A-Za-z_]", "not": {"pattern": "[^A-Za-z0-9_]"}, "maxLength": 64}]
}
_SHAPES = {
    "type": "object",
    "description": "sizes of inputs by name; a name for a size keeps it open",
    "maxProperties": 1000,
    "additionalProperties": {"type": "array", "maxItems": 32, "items": _SIZE},
}
_WORD = {"type": "string", "minLength": 1, "maxLength": 256, "not": {"pattern": "[\\u0000-\\u001f\\u007f]"}}
DEVICE = {**_WORD, "description": "a key of /v1/devices; where there is none, the job runs here"}
_PRECISION = {"enum": ["float32", "bf16", "tf32-like", "f16"], "description": "of operands of products"}
_FLAG = {"type": "boolean"}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}
_BOUND = {"type": "number", "minimum": 0, "maximum": 1e9}
_SECONDS = {"type": "number", "exclusiveMinimum": 0, "maximum": 86400}

#: The options of each kind of job.
OPTIONS: dict[str, dict[str, Any]] = {
    "compile": {
        "shapes": _SHAPES,
        "precision": _PRECISION,
        "exact_rounding": {**_FLAG, "description": "round 16-bit floats after each operator"},
        "signature": {**_WORD, "description": "the entry of a model that has several"},
        "outputs": {"type": "array", "items": _WORD, "minItems": 1, "maxItems": 1000},
        "records": {**ID, "description": "an upload: what a job of kind tune left"},
        "freestanding": {**_FLAG, "description": "C source that needs memcpy and memset alone"},
        "ram_limit": {**_COUNT, "description": "most bytes of workspace of C source"},
        "rom_limit": {**_COUNT, "description": "most bytes of constants and code of C source"},
    },
    "quantize": {
        "shapes": _SHAPES,
        "data": {**ID, "description": "an upload: samples of the inputs, as .npz"},
        "weights": {
            "type": "integer",
            "minimum": 2,
            "maximum": 8,
            "description": "bits of weights, and of nothing else",
        },
        "method": _WORD,
        "max_loss": _SHARE,
        "format": {"enum": ["tw", "onnx"], "description": "of the quantized model"},
    },
    "tune": {
        "shapes": _SHAPES,
        "seconds": {**_SECONDS, "description": "time to spend; 300 where nothing says more"},
        "trials": {**_COUNT, "description": "configurations to measure at most"},
        "explorer": _WORD,
        "seed": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    },
    "profile": {
        "shapes": _SHAPES,
        "precision": _PRECISION,
        "repeat": {"type": "integer", "minimum": 1, "maximum": 1000},
    },
    "verify": {
        "shapes": _SHAPES,
        "precision": _PRECISION,
        "against": {**_WORD, "description": "the engine to compare with"},
        "rtol": _BOUND,
        "atol": _BOUND,
        "max_loss": _SHARE,
        "seed": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    },
}


def _object(properties: dict[str, Any], optional: tuple[str, ...] = (), closed: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }
    return {**found, "additionalProperties": False} if closed else found


def _page(name: str) -> dict[str, Any]:
    """A page of a list, with the cursor of the next one."""
    return _object(
        {"items": {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}, "cursor": {"type": "string"}},
        ("cursor",),
    )


def _new_job(kind: str) -> dict[str, Any]:
    options = OPTIONS[kind]
    return _object(
        {
            "kind": {"const": kind},
            "model": {**ID, "description": "the id of an uploaded model"},
            "target": {**_WORD, "description": "a name of /v1/targets, or the spelling of a target"},
            **({"device": DEVICE} if kind in RUNNING else {}),
            "options": _object(options, tuple(options), closed=True),
        },
        ("options",) if kind == "compile" else ("options", "target", "device"),
        closed=True,
    )


SCHEMAS: dict[str, Any] = {
    "Problem": PROBLEM,
    "Model": _object(
        {
            "id": ID, "name": NAME, "bytes": {"type": "integer", "minimum": 0}, "sha256": _DIGEST,
            "format": {"type": "string"}, "created": TIME,
        }
    ),
    "Models": _page("Model"),
    "NewJob": {
        "oneOf": [{"$ref": f"#/components/schemas/New{kind.title()}Job"} for kind in KINDS],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {kind: f"#/components/schemas/New{kind.title()}Job" for kind in KINDS},
        },
    },
    **{f"New{kind.title()}Job": _new_job(kind) for kind in KINDS},
    "Artifact": _object(
        {
            "name": NAME, "bytes": {"type": "integer", "minimum": 0}, "sha256": _DIGEST,
            "media_type": {"type": "string"},
        }
    ),
    "Job": _object(
        {
            "id": ID, "kind": {"enum": KINDS}, "model": ID, "target": {"type": "string"},
            "device": {"type": "string"}, "options": {"type": "object"},
            "status": {"enum": STATUSES}, "stage": {"type": "string"}, "progress": _SHARE,
            "created": TIME, "started": _MAYBE_TIME, "ended": _MAYBE_TIME, "reason": {"type": "string"},
            "cpu_seconds": {"type": "number", "minimum": 0}, "result": {"type": "object"},
            "artifacts": {"type": "array", "items": {"$ref": "#/components/schemas/Artifact"}},
        }
    ),
    "Jobs": _page("Job"),
    "Target": _object(
        {
            "name": {"type": "string"}, "title": {"type": "string"}, "kind": {"type": "string"},
            "spelling": {"type": "string"}, "artifact": {"enum": ["model.tw", "libmodel.so", "model.c", "model.wasm"]},
            "available": {"type": "boolean"}, "reason": {"type": "string"},
            "runs_here": {"type": "boolean", "description": "jobs of kinds tune, profile and verify take it"},
            "options": {"type": "object", "description": "the options of jobs of kind compile, as schemas by name"},
        }
    ),
    "Targets": {"type": "array", "items": {"$ref": "#/components/schemas/Target"}},
    "Device": _object(
        {
            "key": {"type": "string"}, "architecture": {"type": "string"},
            "devices": {"type": "integer", "minimum": 0}, "free": {"type": "integer", "minimum": 0},
        }
    ),
    "Devices": {"type": "array", "items": {"$ref": "#/components/schemas/Device"}},
    "Action": _object({"time": TIME, "action": {"type": "string"}, "subject": {"type": "string"}}),
    "Actions": _page("Action"),
    "Health": _object({"status": {"type": "string"}}),
}  # fmt: skip
