"""Fetches jars by Maven coordinate into a cache and never hands out a broken one.

A set of jars is complete once its manifest is written, which happens last; each use checks every
jar against the manifest and as a zip file. What is broken is deleted and fetched again, what is
whole stays: so a rerun goes on where the last one stopped. A lock lets two runs share the cache.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from deploy.errors import ToolError

Resolver = Callable[[str, Path], list[Path]]
"""Fetches one coordinate with all that it needs into a folder and returns the jars."""

_TRIES = 3  # one broken transfer is common, three in a row is a network that is down
_TIMEOUT_S = 60
_PARALLEL = 8


class JarStore:
    """A cache of jars below ``cache_dir``; ``say`` gets a line before anything is fetched."""

    def __init__(
        self,
        cache_dir: Path,
        say: Callable[[str], None] = lambda line: None,
        resolver: Resolver | None = None,
    ) -> None:
        self._dir = cache_dir
        self._say = say
        self._resolve = resolver or resolve_with_jgo

    def jars(self, coordinate: str) -> list[Path]:
        """All jars of a `group:artifact:version`, fetched if need be; raises ToolError."""
        found = self._recorded(coordinate)
        if found is not None:
            return found
        with self._lock():
            # another run may have fetched it while this one waited for the lock
            return self._recorded(coordinate) or self._fetch(coordinate)

    def has(self, coordinate: str) -> bool:
        """Whether the jars are here and whole, without fetching anything."""
        return self._recorded(coordinate) is not None

    def _fetch(self, coordinate: str) -> list[Path]:
        self._say(f"fetching {coordinate} (once, into {self._dir})")
        last: Exception | None = None
        for _ in range(_TRIES):
            self._remove_broken()
            try:
                jars = self._resolve(coordinate, self._dir)
            # the resolver's network and XML errors have no common base
            except Exception as error:  # noqa: BLE001
                last = error
                continue
            broken = [jar.name for jar in jars if not is_whole_jar(jar)]
            if jars and not broken:
                self._record(coordinate, jars)
                return jars
            last = ToolError(f"broken after the transfer: {', '.join(broken) or 'no jar at all'}")
        raise ToolError(
            f"can't fetch {coordinate}: {type(last).__name__}: {last}. What came whole is kept in"
            f" {self._dir}; check the network and run the same command again to go on"
        ) from last

    def _recorded(self, coordinate: str) -> list[Path] | None:
        try:
            entries = json.loads(self._manifest(coordinate).read_text())
        except (OSError, ValueError):
            return None
        jars = [self._dir / entry["path"] for entry in entries]
        for jar, entry in zip(jars, entries, strict=True):
            if not jar.is_file() or jar.stat().st_size != entry["bytes"] or not is_whole_jar(jar):
                return None
        return jars

    def _record(self, coordinate: str, jars: list[Path]) -> None:
        entries = [
            {"path": str(jar.relative_to(self._dir)), "bytes": jar.stat().st_size} for jar in jars
        ]
        target = self._manifest(coordinate)
        scratch = target.with_suffix(f".{os.getpid()}.tmp")
        scratch.write_text(json.dumps(entries, indent=1))
        scratch.replace(target)

    def _manifest(self, coordinate: str) -> Path:
        return self._dir / "sets" / (coordinate.replace(":", "_") + ".json")

    def _remove_broken(self) -> None:
        for jar in self._dir.glob("**/*.jar"):
            if not is_whole_jar(jar):
                jar.unlink(missing_ok=True)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        try:
            (self._dir / "sets").mkdir(parents=True, exist_ok=True)
            handle = (self._dir / "lock").open("a")
        except OSError as error:
            raise ToolError(
                f"can't write the cache folder {self._dir}: {error.strerror}."
                " Free some space or set TIDEMILL_CACHE to another folder"
            ) from error
        with handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def is_whole_jar(path: Path) -> bool:
    """Whether the file has a readable zip directory, which lies at its end."""
    try:
        with zipfile.ZipFile(path) as jar:
            return bool(jar.infolist())
    except (OSError, zipfile.BadZipFile):
        return False


def resolve_with_jgo(coordinate: str, folder: Path) -> list[Path]:
    """Fetch with jgo, a Maven resolver in Python that checks the published SHA-1 of each jar.

    Its resolver alone: its environments would look for a JDK to sort jars by modules.
    """
    try:
        from jgo.maven import MavenContext
        from jgo.parse import Endpoint
    except ImportError as error:
        raise ToolError("jgo is not installed: pip install 'tidemill[jobs]'") from error
    context = MavenContext(repo_cache=folder / "maven", timeout=_TIMEOUT_S)
    wanted = dataclasses.replace(Endpoint.parse(coordinate).coordinates[0], scope="compile")
    given, needed = context.resolver.resolve([context.create_dependency(wanted)])
    at_run_time = [dep for dep in needed if dep.scope in ("compile", "runtime")]
    with ThreadPoolExecutor(_PARALLEL) as pool:
        return list(pool.map(lambda dep: dep.artifact.resolve(), [*given, *at_run_time]))
