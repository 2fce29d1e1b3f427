"""Errors as clients of Amazon's services know them."""

from __future__ import annotations


class ServiceError(Exception):
    """An answer other than the wanted one: the `code` that clients look at, and the HTTP `status`."""

    code, status = "InternalFailure", 500


class ValidationException(ServiceError):
    """A request that breaks a constraint of the service's model."""

    code, status = "ValidationException", 400


class SerializationException(ServiceError):
    """A body that is no JSON object of the right types."""

    code, status = "SerializationException", 400


class UnknownOperation(ServiceError):
    """An operation that this service does not have."""

    code, status = "UnknownOperationException", 400


class ResourceInUse(ServiceError):
    """A name that is taken."""

    code, status = "ResourceInUse", 400


class ResourceLimitExceeded(ServiceError):
    """More jobs than one owner may have waiting and running."""

    code, status = "ResourceLimitExceeded", 400


class ResourceNotFound(ServiceError):
    """A job that there is not."""

    code, status = "ResourceNotFound", 400


class MissingAuthenticationToken(ServiceError):
    """A request without a signature."""

    code, status = "MissingAuthenticationTokenException", 403


class IncompleteSignature(ServiceError):
    """An Authorization header that is not that of Signature Version 4."""

    code, status = "IncompleteSignatureException", 400


class InvalidClientToken(ServiceError):
    """A key that the service does not know."""

    code, status = "UnrecognizedClientException", 403


class InvalidSignature(ServiceError):
    """A signature of something else, of another time, or one that was seen before."""

    code, status = "InvalidSignatureException", 403
