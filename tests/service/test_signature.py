"""Signature Version 4: what is wrong, stale, repeated or unsigned is refused, and changes nothing."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping

import pytest

from tests.service.conftest import Service

awsrequest = pytest.importorskip("botocore.awsrequest", reason="the extra [serve] is not installed")


def _signed(
    service: Service, operation: str, body: bytes, at: float | None = None, **credentials: str
) -> dict[str, str]:
    """Headers of a request, signed by botocore."""
    from botocore.auth import SigV4Auth
    from botocore.credentials import Credentials

    key, secret = service.store.add_key("signer")
    request = awsrequest.AWSRequest("POST", service.url + "/", data=body)
    request.headers["X-Amz-Target"] = f"SageMaker.{operation}"
    signer = SigV4Auth(
        Credentials(credentials.get("key", key), credentials.get("secret", secret)),
        credentials.get("scope", "sagemaker"),
        "us-east-1",
    )
    request.context["timestamp"] = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
    request.headers["X-Amz-Date"] = request.context["timestamp"]
    request.headers["Host"] = service.url.removeprefix("http://")
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    names = signer.signed_headers(signer.headers_to_sign(request))
    request.headers["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={signer.scope(request)}, SignedHeaders={names}, Signature={signature}"
    )
    return dict(request.headers)


def _answer(service: Service, headers: Mapping[str, str], body: bytes) -> tuple[int, str]:
    """The status and the code of the error, or nothing."""
    request = urllib.request.Request(service.url + "/", data=body, headers=dict(headers))
    try:
        with urllib.request.urlopen(request) as response:
            return response.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())["__type"]


LIST = b"{}"


def test_a_right_signature_is_taken(service: Service) -> None:
    assert _answer(service, _signed(service, "ListCompilationJobs", LIST), LIST) == (200, "")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"secret": "another"}, "InvalidSignatureException"),
        ({"key": "TWNOBODY"}, "UnrecognizedClientException"),
        ({"scope": "s3"}, "InvalidSignatureException"),
        ({"at": -1000.0}, "InvalidSignatureException"),
        ({"at": 1000.0}, "InvalidSignatureException"),
    ],
)
def test_a_wrong_secret_key_service_or_time(service: Service, changed: dict[str, object], code: str) -> None:
    at = changed.pop("at", None)
    when = None if at is None else time.time() + float(at)  # type: ignore[arg-type]
    headers = _signed(service, "ListCompilationJobs", LIST, when, **changed)  # type: ignore[arg-type]
    assert _answer(service, headers, LIST)[1] == code


def test_a_body_that_was_changed(service: Service) -> None:
    headers = _signed(service, "ListCompilationJobs", LIST)
    assert _answer(service, headers, b'{"MaxResults": 5}') == (403, "InvalidSignatureException")


def test_a_change_that_is_sent_again(service: Service) -> None:
    body = json.dumps({"CompilationJobName": "none"}).encode()
    headers = _signed(service, "StopCompilationJob", body)
    assert _answer(service, headers, body) == (400, "ResourceNotFound")
    assert _answer(service, headers, body) == (403, "InvalidSignatureException")


def test_an_old_question_that_is_sent_again(service: Service) -> None:
    headers = _signed(service, "ListCompilationJobs", LIST, time.time() - 60)
    assert _answer(service, headers, LIST) == (200, "")
    assert _answer(service, headers, LIST) == (403, "InvalidSignatureException")


@pytest.mark.parametrize(
    ("removed", "code"),
    [
        ("Authorization", "MissingAuthenticationTokenException"),
        ("X-Amz-Date", "IncompleteSignatureException"),
        ("X-Amz-Target", "IncompleteSignatureException"),
    ],
)
def test_headers_that_are_missing(service: Service, removed: str, code: str) -> None:
    headers = _signed(service, "ListCompilationJobs", LIST)
    del headers[removed]
    assert _answer(service, headers, LIST)[1] == code


@pytest.mark.parametrize(
    ("operation", "body", "code"),
    [
        ("CreateModel", b"{}", "UnknownOperationException"),
        ("ListCompilationJobs", b"[", "SerializationException"),
        ("ListCompilationJobs", b"[" * 100_000, "SerializationException"),
        ("ListCompilationJobs", b"[]", "SerializationException"),
        ("ListCompilationJobs", b'{"MaxResults": "5"}', "SerializationException"),
        ("ListCompilationJobs", b'{"MaxResults": NaN}', "SerializationException"),
        ("ListCompilationJobs", b'{"Other": 1}', "SerializationException"),
        ("ListCompilationJobs", b'{"MaxResults": 101}', "ValidationException"),
        ("ListCompilationJobs", b'{"NextToken": "W10="}', "ValidationException"),
        ("ListCompilationJobs", b'{"NextToken": "\xc3\xa9"}', "ValidationException"),
    ],
)
def test_bodies_that_are_wrong(service: Service, operation: str, body: bytes, code: str) -> None:
    assert _answer(service, _signed(service, operation, body), body) == (400, code)


def test_a_body_that_is_too_large(service: Service) -> None:
    body = b" " * (service.settings.request_bytes + 1)
    assert _answer(service, _signed(service, "ListCompilationJobs", body), body)[0] == 413
