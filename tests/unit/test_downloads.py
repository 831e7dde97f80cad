"""The cache of jars: whole or fetched again, one fetch at a time, and errors that help."""

from __future__ import annotations

import threading
import time
import zipfile
from pathlib import Path

import pytest

from deploy.downloads import JarStore, is_whole_jar
from deploy.errors import ToolError

COORDINATE = "org.example:thing:1.0"


class Mirror:
    """A source of jars that counts, and can break or fail a number of times."""

    def __init__(self, broken: int = 0, failing: int = 0, takes_s: float = 0.0) -> None:
        self.calls = 0
        self._broken = broken
        self._failing = failing
        self._takes_s = takes_s

    def __call__(self, coordinate: str, folder: Path) -> list[Path]:
        self.calls += 1
        time.sleep(self._takes_s)
        if self.calls <= self._failing:
            raise ConnectionError("the network is down")
        jars = [folder / "maven" / name for name in ("thing-1.0.jar", "other-2.0.jar")]
        for jar in jars:
            if not jar.is_file():
                write_jar(jar)
        if self.calls <= self._broken:
            truncate(jars[0])
        return jars


def write_jar(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("io/Thing.class", bytes(2000))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def test_a_second_use_fetches_nothing(tmp_path: Path) -> None:
    mirror = Mirror()
    store = JarStore(tmp_path, resolver=mirror)
    first = store.jars(COORDINATE)
    assert store.jars(COORDINATE) == first == JarStore(tmp_path, resolver=mirror).jars(COORDINATE)
    assert mirror.calls == 1


def test_says_what_is_being_fetched_and_where_to(tmp_path: Path) -> None:
    said: list[str] = []
    JarStore(tmp_path, said.append, Mirror()).jars(COORDINATE)
    assert len(said) == 1
    assert COORDINATE in said[0]
    assert str(tmp_path) in said[0]


@pytest.mark.parametrize("harm", [truncate, Path.unlink, lambda p: p.write_bytes(b"")])
def test_a_jar_that_broke_in_the_cache_is_found_and_fetched_again(
    tmp_path: Path, harm: object
) -> None:
    mirror = Mirror()
    store = JarStore(tmp_path, resolver=mirror)
    jar = store.jars(COORDINATE)[0]
    assert callable(harm)
    harm(jar)
    assert not store.has(COORDINATE)
    assert is_whole_jar(store.jars(COORDINATE)[0])
    assert mirror.calls == 2


def test_a_broken_transfer_is_tried_again(tmp_path: Path) -> None:
    mirror = Mirror(broken=1)
    assert all(is_whole_jar(jar) for jar in JarStore(tmp_path, resolver=mirror).jars(COORDINATE))
    assert mirror.calls == 2


def test_a_network_that_is_down_names_what_was_fetched_and_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(ToolError) as caught:
        JarStore(tmp_path, resolver=Mirror(failing=99)).jars(COORDINATE)
    text = str(caught.value)
    assert COORDINATE in text
    assert "the network is down" in text
    assert "run the same command again" in text


def test_a_rerun_keeps_what_came_whole(tmp_path: Path) -> None:
    with pytest.raises(ToolError):
        JarStore(tmp_path, resolver=Mirror(broken=99)).jars(COORDINATE)
    other = tmp_path / "maven" / "other-2.0.jar"
    before = other.stat().st_mtime_ns
    JarStore(tmp_path, resolver=Mirror()).jars(COORDINATE)
    assert other.stat().st_mtime_ns == before


def test_two_runs_at_once_fetch_once(tmp_path: Path) -> None:
    mirror = Mirror(takes_s=0.2)
    stores = [JarStore(tmp_path, resolver=mirror) for _ in range(2)]
    threads = [threading.Thread(target=store.jars, args=(COORDINATE,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mirror.calls == 1


def test_an_unwritable_cache_folder_names_itself_and_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match="TIDEMILL_CACHE"):
        JarStore(tmp_path / "file" / "cache", resolver=Mirror()).jars(COORDINATE)
