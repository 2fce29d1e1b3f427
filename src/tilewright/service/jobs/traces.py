"""Spans for OpenTelemetry, of requests and of jobs, which go on in the trace of the request that made them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilewright.errors import EnvironmentError_
from tilewright.service.jobs.packages import package


@functools.cache
def tracer() -> Any:
    """A tracer where OTEL_* variables ask for one and the SDK is installed; None otherwise.

    Raises `EnvironmentError_` where they name an exporter that is not installed.
    """
    kind = os.environ.get("OTEL_TRACES_EXPORTER", "otlp" if "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ else "none")
    if kind == "none":
        return None
    try:
        sdk, export = package("opentelemetry.sdk.trace"), package("opentelemetry.sdk.trace.export")
        if kind == "console":
            exporter = export.ConsoleSpanExporter()
        else:
            exporter = package("opentelemetry.exporter.otlp.proto.http.trace_exporter").OTLPSpanExporter()
    except (EnvironmentError_, ModuleNotFoundError):
        raise EnvironmentError_(
            f"OTEL_TRACES_EXPORTER={kind} needs: pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        ) from None
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.BatchSpanProcessor(exporter))
    return provider.get_tracer("tilewright.service")


def carrier() -> dict[str, str]:
    """The headers by which another process goes on in the current trace; none without one."""
    found: dict[str, str] = {}
    if tracer() is not None:
        package("opentelemetry.propagate").inject(found)
    return found


@contextmanager
def span(name: str, headers: Mapping[str, str], kind: str, attributes: Mapping[str, Any]) -> Iterator[Any]:
    """A span around the enclosed code, in the trace of `headers`; None where nobody wants one.

    `kind` is OpenTelemetry's: "SERVER", "CONSUMER".
    """
    if tracer() is None:
        yield None
        return
    around = package("opentelemetry.propagate").extract(dict(headers))
    kinds = package("opentelemetry.trace").SpanKind
    with tracer().start_as_current_span(name, around, getattr(kinds, kind), dict(attributes)) as found:
        yield found
