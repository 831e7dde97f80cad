"""Compiles the bridge without Maven: a compiler, a classpath, and a jar by zipfile.

The same sources give the same jar, byte for byte, and a jar that is current is left alone.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from deploy.errors import ToolError

SOURCES = Path(__file__).resolve().parent / "src"
STAMP = "META-INF/tidemill.stamp"  # inside the jar, so that it can't outlive or precede it
_MANIFEST = b"Manifest-Version: 1.0\r\n\r\n"
_RELEASE = "17"  # the oldest Java that our clusters run on
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that zip can tell
_COMPILE_TIMEOUT_S = 300  # a second on an idle machine


def build_bridge(
    java: Path,
    classpath: Sequence[Path],
    out_jar: Path,
    ecj_jar: Path | None,
    sources: Path = SOURCES,
) -> None:
    """Compile all Java files below ``sources`` into ``out_jar``; does nothing if it is current.

    ``java`` is the `java` program.  Takes the `javac` beside it, else ``ecj_jar``, which needs a
    JRE only.  The jar appears whole or not at all.  Raises ToolError with the compiler's output.
    """
    files = sorted(sources.rglob("*.java"))
    if not files:
        raise ToolError(f"{sources} has no Java files: reinstall tidemill")
    stamp = source_stamp(files, sources, classpath)
    if _stamp_of(out_jar) == stamp:
        return
    compiler = _compiler(java, ecj_jar)
    out_jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out_jar.parent, prefix=".build-") as scratch:
        classes = Path(scratch) / "classes"
        classes.mkdir()
        _compile([*compiler, "-cp", _joined(classpath), "-d", str(classes), *map(str, files)])
        packed = Path(scratch) / "packed.jar"
        _pack(classes, packed, stamp)
        packed.replace(out_jar)


def source_stamp(files: Iterable[Path], root: Path, classpath: Sequence[Path]) -> str:
    """Changes with any source and with the names (which carry the versions) on the classpath."""
    digest = hashlib.sha256(_RELEASE.encode())
    for file in files:
        digest.update(b"\0" + str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    for jar in sorted(path.name for path in classpath):
        digest.update(b"\0" + jar.encode())
    return digest.hexdigest()


def _stamp_of(jar: Path) -> str | None:
    try:
        with zipfile.ZipFile(jar) as packed:
            return packed.read(STAMP).decode()
    except (OSError, zipfile.BadZipFile, KeyError):
        return None


def _compiler(java: Path, ecj_jar: Path | None) -> list[str]:
    for candidate in (java.with_name("javac"), java.resolve().with_name("javac")):
        if os.access(candidate, os.X_OK):
            return [str(candidate), "--release", _RELEASE, "-encoding", "UTF-8", "-nowarn"]
    if ecj_jar is None:
        raise ToolError(f"{java} has no javac beside it: install a JDK, or give the jar of ecj")
    return [str(java), "-jar", str(ecj_jar), f"-{_RELEASE}", "-encoding", "UTF-8", "-nowarn"]


def _joined(classpath: Sequence[Path]) -> str:
    return os.pathsep.join(map(str, classpath))


def _compile(argv: list[str]) -> None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_COMPILE_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"the Java compiler {argv[0]} did not run: {error}") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()
        raise ToolError(
            f"the bridge does not compile with {argv[0]} (exit {done.returncode}):\n{output}"
        )


def _pack(classes: Path, jar: Path, stamp: str) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as packed:
        _add(packed, "META-INF/MANIFEST.MF", _MANIFEST)
        _add(packed, STAMP, stamp.encode())
        for file in sorted(classes.rglob("*.class")):
            _add(packed, file.relative_to(classes).as_posix(), file.read_bytes())


def _add(packed: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    packed.writestr(entry, content)
