"""Host operators in JavaScript beside those in Python: calls as JSON, run by one process of Node."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.runtime.web.helpers import NODE
from tilewright.runtime.web.description import plain_json
from tilewright.runtime.web.host import HOST_FILES
from tilewright.runtime.web.package import filled
from tilewright.support.dtype import DType

#: One call: the operator's name, its attributes, its values.
Call = tuple[str, dict[str, Any], Sequence[Any]]

_SCRIPT = """
const given = (value) => {
  if (value === null) return undefined;
  if (Array.isArray(value)) return value.map(given);
  const { dtype, shape, data } = value;
  if (dtype === "string") return { data, shape, dtype };
  return tensor(dtype, shape, data.map((x) => (dtype.endsWith("int64") ? BigInt(x) : Number(x))));
};
const write = (value) => {
  if (value === undefined || value === null) return null;
  if (Array.isArray(value)) return value.map(write);
  if (value instanceof Data) return { fields: value.fields.map(write) };
  const { dtype, shape, data } = value;
  return { dtype, shape, data: dtype === "string" ? data : Array.from(numbers(value), String) };
};
const { readFileSync } = await import("node:fs");
for (const [name, attrs, values] of JSON.parse(readFileSync(0, "utf-8"), revived)) {
  let answer;
  try {
    answer = { value: write(hostOperator(name, attrs, "node")(...values.map(given))) };
  } catch (error) {
    answer = { error: error.message, kind: error.constructor.name };
  }
  console.log(JSON.stringify(answer));
}
"""


def in_javascript(calls: Sequence[Call], folder: Path) -> list[Any]:
    """The results of calls, each the value or the message of its error."""
    script = folder / "replay.mjs"
    text = filled(["files.mjs", *HOST_FILES], {"VERSION": "0"})
    script.write_text(text + _SCRIPT)
    given = plain_json([[name, attrs, [_encoded(value) for value in values]] for name, attrs, values in calls])
    done = subprocess.run([NODE or "", str(script)], input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [_decoded(answer) for answer in map(json.loads, done.stdout.splitlines())]


def _encoded(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_encoded(one) for one in value]
    array = np.asarray(value)
    if array.dtype == object:
        return {"dtype": "string", "shape": list(array.shape), "data": [str(one) for one in array.reshape(-1)]}
    kind = str(DType(array.dtype))
    flat = array.reshape(-1)
    numbers = flat.astype(np.float64) if kind in ("float16", "bfloat16", "float32", "float64") else flat
    return {"dtype": kind, "shape": list(array.shape), "data": [_number(one) for one in numbers.tolist()]}


def _number(value: Any) -> str:
    text = str(int(value) if isinstance(value, bool) else value)
    return text.replace("inf", "Infinity").replace("nan", "NaN")


def _decoded(answer: Any) -> Any:
    if "error" in answer:
        return f"{answer['kind']}: {answer['error']}"
    return _value(answer["value"])


def _value(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_value(one) for one in value]
    if "fields" in value:
        return tuple(_value(one) for one in value["fields"])
    if value["dtype"] == "string":
        made = np.empty(len(value["data"]), object)
        made[:] = value["data"]
        return made.reshape(value["shape"])
    texts = [text.replace("true", "1").replace("false", "0") for text in value["data"]]
    kind = DType(value["dtype"])
    wide = [float(text) for text in texts] if kind.is_float else [int(text) for text in texts]
    return np.array(wide, object if not wide else None).astype(kind.numpy).reshape(value["shape"])
