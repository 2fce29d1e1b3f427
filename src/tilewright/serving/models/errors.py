"""The error of a request: a status of HTTP, which has one of gRPC beside it, and a message for the client."""

from __future__ import annotations

from tilewright.errors import UserError


class RequestError(UserError):
    """A request that is refused. `status` is HTTP's; `retry_after` are seconds after which it may succeed."""

    def __init__(self, message: str, status: int = 400, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


def overloaded(message: str) -> RequestError:
    """The error of a request that found no room; the same one may succeed a second later."""
    return RequestError(message, 503, retry_after=1)
