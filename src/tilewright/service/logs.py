"""The log of a service, as text or as lines of JSON."""

from __future__ import annotations

import json
import logging


class JsonLines(logging.Formatter):
    """Log records as lines of JSON: time, level, logger, message, and the fields of a request."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        found = {"time": round(record.created, 3), "level": record.levelname.lower(), "logger": record.name,
                 "message": record.getMessage(), **getattr(record, "fields", {})}  # fmt: skip
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return json.dumps(found)


def start_logs(form: str) -> None:
    """Log to standard error, as "text" or as "json"."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
