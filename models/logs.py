"""Log lines of the worker's processes: one line of text, or one JSON object, on standard error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

HUMAN = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """time (ISO, UTC), level, logger, message, pid; error with its trace if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One JSON object without line breaks."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "pid": record.process,
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def start_logging(style: str, level: str) -> None:
    """`style`: human or json. Replaces what was set up before."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if style == "json" else logging.Formatter(HUMAN))
    logging.basicConfig(level=level, handlers=[handler], force=True)
