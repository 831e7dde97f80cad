"""A JVM with the bridge's own classes, asked over its standard input: one line, one answer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.bridge.build import build_bridge
from deploy.tools import Tools

_JAVA_SOURCES = Path(__file__).parent / "java"
_CLOSE_S = 20


class ProbeError(Exception):
    """The Java side raised; the message begins with the exception's class."""


class Probe:
    """Asks the running JVM.  Bytes travel as "x" and hex digits, null as "-"."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, *words: object) -> list[str]:
        """The words of the answer; raises ProbeError if Java raised."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise ProbeError(f"the JVM ended with {self._process.wait(_CLOSE_S)}")
        if answer.startswith("!"):
            raise ProbeError(answer[1:].strip())
        return answer.split()


def token(blob: bytes | None) -> str:
    """``blob`` as a word for the probe."""
    return "-" if blob is None else "x" + blob.hex()


def blob(word: str) -> bytes | None:
    """The bytes of a word of the probe."""
    return None if word == "-" else bytes.fromhex(word[1:])


def header_words(headers: Sequence[tuple[str, bytes | None]]) -> list[str]:
    """Names and values in turn, as words for the probe."""
    return [word for name, value in headers for word in (token(name.encode()), token(value))]


@contextmanager
def start_probe(tools: Tools, folder: Path) -> Iterator[Probe]:
    """Compile the probe into ``folder`` as the bridge itself is compiled, and run it."""
    jar = folder / "probe.jar"
    build_bridge(tools.java, tools.flink_jars, jar, tools.ecj_jar, _JAVA_SOURCES)
    classpath = ":".join(map(str, [jar, *tools.flink_jars]))
    command = [str(tools.java), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    # Flink 2.3 opens these in its own scripts; its serializers look into java.util.
    opens = ["--add-opens=java.base/java.util=ALL-UNNAMED"]
    process = subprocess.Popen(
        [*command, *opens, "-cp", classpath, "io.tidemill.bridge.CodecProbe"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with process:
        try:
            yield Probe(process)
        finally:
            process.communicate(timeout=_CLOSE_S)
