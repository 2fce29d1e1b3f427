"""Signature Version 4: who sent a request, that it is unchanged, and that it is new.

The signature is computed by botocore, which clients sign with. A request counts once: its signature is kept until its
date is too old to be taken. Dates have whole seconds, so equal calls of one second have one signature: those that only
read may be repeated for as long as a client takes to send them.
"""

from __future__ import annotations

import calendar
import hashlib
import hmac
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.service.jobs.packages import package
from tilewright.service.neo.errors import (
    IncompleteSignature,
    InvalidClientToken,
    InvalidSignature,
    MissingAuthenticationToken,
)

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/,\s]+)/(?P<day>\d{8})/(?P<region>[^/,\s]+)/(?P<service>[^/,\s]+)/"
    r"aws4_request,\s*SignedHeaders=(?P<headers>[a-z0-9;_.-]+),\s*Signature=(?P<signature>[0-9a-f]{64})"
)
#: Headers without which a signature says too little: the host, and the operation.
_SIGNED = ("host", "x-amz-date", "x-amz-target")
#: Operations that change nothing begin so; seconds for which one may come again.
_READS, _REPEATED = ("Describe", "List"), 5.0
_DATE = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class Received:
    """A request over HTTP: its path and query as sent, headers by lower-case name, and body."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


def signed_by(
    request: Received,
    secret_of: Callable[[str], str | None],
    first_time: Callable[[str, float], bool],
    skew: float,
    service: str = "sagemaker",
) -> str:
    """The key that signed a request. Raises a `ServiceError` for one that is unsigned, wrong, stale or seen before.

    `secret_of` returns the secret of a key, `first_time` records a signature until a time and is false where it is
    recorded already; `skew` is how far dates may lie apart, in seconds.
    """
    found = _AUTHORIZATION.fullmatch(_authorization(request))
    if found is None:
        raise IncompleteSignature("the Authorization header is not that of Signature Version 4")
    names = found["headers"].split(";")
    missing = [name for name in _SIGNED if name not in names or name not in request.headers]
    if missing:
        raise IncompleteSignature(f"the signature leaves out {', '.join(missing)}")
    if found["service"] != service:
        raise InvalidSignature(f"Credential should be scoped to correct service: '{service}'.")
    signed_at = _seconds(request.headers["x-amz-date"], found["day"])
    if abs(time.time() - signed_at) > skew:
        raise InvalidSignature(f"Signature expired: {request.headers['x-amz-date']} is more than {skew:g} s from now")
    secret = secret_of(found["key"])
    if secret is None:
        raise InvalidClientToken("The security token included in the request is invalid.")
    if not hmac.compare_digest(_signature(request, found, names, secret), found["signature"]):
        raise InvalidSignature(
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret "
            "Access Key and signing method."
        )
    reads = request.headers["x-amz-target"].partition(".")[2].startswith(_READS)
    repeatable = reads and abs(time.time() - signed_at) < _REPEATED
    if not first_time(found["signature"], signed_at + 2 * skew) and not repeatable:
        raise InvalidSignature("a request with this signature came before; sign each request of its own")
    return found["key"]


def _authorization(request: Received) -> str:
    value = request.headers.get("authorization")
    if not value:
        raise MissingAuthenticationToken("Missing Authentication Token")
    return value


def _seconds(date: str, day: str) -> float:
    try:
        parsed = time.strptime(date, _DATE)
    except ValueError:
        raise IncompleteSignature(f"Date must be in ISO-8601 'basic format'. Got '{date[:40]}'.") from None
    if not date.startswith(day):
        raise InvalidSignature("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date")
    return float(calendar.timegm(parsed))


def _signature(request: Received, found: re.Match[str], names: list[str], secret: str) -> str:
    """The signature that `secret` yields, by botocore."""
    auth, awsrequest = package("botocore.auth"), package("botocore.awsrequest")
    credentials = package("botocore.credentials").Credentials(found["key"], secret)
    signer: Any = auth.SigV4Auth(credentials, found["service"], found["region"])
    host, query = request.headers["host"], f"?{request.query}" if request.query else ""
    theirs = awsrequest.AWSRequest(request.method, f"http://{host}{request.path}{query}", data=request.body)
    theirs.context["timestamp"] = request.headers["x-amz-date"]
    headers = {name: request.headers.get(name, "") for name in names}
    canonical = "\n".join(
        [
            request.method.upper(),
            request.path or "/",
            request.query,
            "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(names)),
            ";".join(sorted(names)),
            hashlib.sha256(request.body).hexdigest(),
        ]
    )
    return signer.signature(signer.string_to_sign(theirs, canonical), theirs)
