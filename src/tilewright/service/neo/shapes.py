"""Checks of a request against the model of SageMaker's service that botocore ships.

Types, required members, lengths, patterns and enumerations; messages are worded as Amazon's are. botocore's own
validation, which runs in the client, looks at types, required members and lower bounds alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.service.jobs.packages import package
from tilewright.service.neo.errors import SerializationException, ValidationException

#: Classes of characters that the service's patterns have and Python's lack; they stand beside `_` alone.
_CLASSES = {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s"}

#: JSON's types by those of the service's model; a time is a number of seconds.
_TYPES: dict[str, tuple[type, ...]] = {
    "structure": (dict,), "map": (dict,), "list": (list,), "string": (str,), "integer": (int,), "long": (int,),
    "boolean": (bool,), "timestamp": (int, float), "float": (int, float), "double": (int, float),
}  # fmt: skip

#: What the pattern of a location is here: files as well.
_LOCATION = re.compile(r"(https|s3|file)://([^/]*)/?(.*)")


@functools.cache
def service_model() -> Any:
    """botocore's model of SageMaker."""
    return package("botocore.session").get_session().get_service_model("sagemaker")


def check_request(operation: str, request: Any) -> dict[str, Any]:
    """The request, where it keeps all constraints; `ValidationException` with each that it breaks otherwise."""
    shape = service_model().operation_model(operation).input_shape
    problems = list(_problems(shape, request, ""))
    if problems:
        count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected: "
        raise ValidationException(count + "; ".join(problems))
    return dict(request)


def _problems(shape: Any, found: object, path: str) -> Iterator[str]:
    """The constraints that a value breaks."""
    wanted = _TYPES[shape.type_name]
    if not isinstance(found, wanted) or (isinstance(found, bool) and bool not in wanted):
        raise SerializationException(f"{path or 'the body'} is no {shape.type_name}")
    value: Any = found
    if shape.type_name == "structure":
        yield from _members(shape, value, path)
    elif shape.type_name == "list":
        yield from _bounds(shape, len(value), path, "have length")
        for index, one in enumerate(value):
            yield from _problems(shape.member, one, f"{path}.{index + 1}.member")
    elif shape.type_name == "string":
        yield from _text(shape, value, path)
    elif shape.type_name == "integer":
        yield from _bounds(shape, value, path, "have value")


def _members(shape: Any, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield f"Value null at '{_at(path, name)}' failed to satisfy constraint: Member must not be null"
    for name, one in value.items():
        if name not in shape.members:
            raise SerializationException(f"{_at(path, name)} is no member of {shape.name}")
        if one is not None:
            yield from _problems(shape.members[name], one, _at(path, name))


def _at(path: str, name: str) -> str:
    name = name[0].lower() + name[1:]
    return f"{path}.{name}" if path else name


def _bounds(shape: Any, found: int, path: str, verb: str) -> Iterator[str]:
    low, high = shape.metadata.get("min"), shape.metadata.get("max")
    failed = f"Value at '{path}' failed to satisfy constraint: Member must {verb}"
    if low is not None and found < low:
        yield f"{failed} greater than or equal to {low}"
    if high is not None and found > high:
        yield f"{failed} less than or equal to {high}"


def _text(shape: Any, value: str, path: str) -> Iterator[str]:
    long = list(_bounds(shape, len(value), path, "have length"))
    yield from long
    if shape.enum and value not in shape.enum:
        yield (
            f"Value '{value[:100]}' at '{path}' failed to satisfy constraint: Member must satisfy enum value set: "
            f"[{', '.join(shape.enum)}]"
        )
    pattern = shape.metadata.get("pattern")
    # a pattern may take long for a text that is longer than it may be
    if pattern and not long and not _pattern(shape.name, pattern).fullmatch(value):
        yield (
            f"Value '{value[:100]}' at '{path}' failed to satisfy constraint: Member must satisfy regular expression "
            f"pattern: {pattern}"
        )


@functools.cache
def _pattern(name: str, pattern: str) -> re.Pattern[str]:
    if name == "S3Uri":
        return _LOCATION
    for ours, python in _CLASSES.items():
        pattern = pattern.replace(ours, python)
    return re.compile(pattern, re.DOTALL)
