"""A health check for images without curl: `python -m deploy.docker.healthy URL`."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request

_TIMEOUT_S = 2.0


def main(url: str) -> int:
    """0 if the URL answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S):
            return 0
    except (OSError, ValueError) as error:
        sys.stderr.write(f"{url}: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
