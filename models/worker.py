"""A worker process: load, warm, check, listen, serve, drain. Run as `python -m models.worker`.

Decides: the order of these, and the exit code of each failure.
READY comes only after every bucket is warm and the golden vectors pass; before that nobody can
connect, so a wrong model never answers.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from models.address import AddressError, TlsFiles, parse_address, require_secure
from models.logs import start_logging
from models.spec import ModelSpec, SpecError, load_spec
from models.worker_config import (
    EXIT_ADDRESS,
    EXIT_GOLDEN,
    EXIT_LOAD,
    EXIT_OK,
    EXIT_POISONED,
    EXIT_SETTINGS,
    WorkerConfig,
    parse_command,
)

log = logging.getLogger("models.worker")

PR_SET_PDEATHSIG = 1
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM. Returns the exit code."""
    config = parse_command(sys.argv[1:] if arguments is None else arguments)
    start_logging(config.log_format, config.log_level)
    _die_with(config.parent)
    for name in THREAD_VARIABLES:  # read by the libraries when they are loaded, so before numpy is
        os.environ[name] = str(config.threads)
    try:
        spec = load_spec(Path(config.model))
        address = parse_address(config.address)
        tls = TlsFiles.from_settings(config.tls_ca, config.tls_cert, config.tls_key)
        require_secure(address, tls, config.allow_plain_tcp)
    except (SpecError, AddressError) as error:
        log.error("not started: %s", error)
        return EXIT_SETTINGS
    return _run(config, spec)


def _die_with(parent: int) -> None:
    """Be killed when the supervisor dies, however it dies; nobody would watch this process then."""
    if not parent:
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(EXIT_OK)  # it died before prctl


def _run(config: WorkerConfig, spec: ModelSpec) -> int:
    # Imported here: the thread variables above must be set before numpy and torch are loaded.
    from models.engine import DevicePoisonedError
    from models.golden import GoldenMismatchError
    from models.load import ModelLoadError
    from models.serve import serve

    try:
        serve(config, spec)
    except GoldenMismatchError as error:
        log.error("not started: %s", error)
        return EXIT_GOLDEN
    except ModelLoadError as error:
        log.error("not started: %s", error)
        return EXIT_LOAD
    except DevicePoisonedError as error:
        # No clean-up: destructors of a broken context may hang or raise in the driver.
        log.critical("the device can't be used any more: %s", error)
        logging.shutdown()
        os._exit(EXIT_POISONED)
    except OSError as error:
        log.error("can't listen: %s", error)
        return EXIT_ADDRESS
    log.info("drained, all answered")
    gc.unfreeze()
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
