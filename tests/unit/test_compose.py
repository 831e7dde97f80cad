"""docker-compose.yml: valid, and of one mind with the settings, the commands and the files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.main import COMMANDS
from deploy.local import render
from tests.unit.compose_model import compose_problems, interpolate
from tidemill.settings import Settings, load_settings

REPOSITORY = Path(__file__).resolve().parents[2]
DOCKER = REPOSITORY / "deploy" / "docker"
OURS = ("train", "worker", "topics", "submit", "relay", "jobmanager", "taskmanager")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file as an engine would see it."""
    document = interpolate(yaml.safe_load((REPOSITORY / "docker-compose.yml").read_text()))
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, Any]:
    return dict(compose["services"])


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The containers' settings, with the secret where this test may read it."""
    text = (DOCKER / "tidemill.toml").read_text()
    path = tmp_path_factory.mktemp("compose") / "tidemill.toml"
    password = DOCKER / "redis-password.example"
    path.write_text(text.replace("/run/secrets/redis_password", str(password)))
    return load_settings(path, environ={})


def mib(size: str) -> int:
    return int(size[:-1]) * {"m": 1, "g": 1024}[size[-1].lower()]


def test_the_file_is_valid(compose: dict[str, Any]) -> None:
    assert compose_problems(compose) == []


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"image": "a", "comand": ["x"]}, "comand"),
        ({"image": "a", "mem_limit": "2 gigs"}, "mem_limit"),
        ({"image": "a", "cpuset": "all"}, "cpuset"),
        ({"image": "a", "depends_on": {"b": {"condition": "healthy"}}}, "depends_on"),
        ({"image": "a", "environment": {"PORT": 1}}, "environment"),
        ({"image": "a", "healthcheck": {"test": ["CMD", "x"]}}, "healthcheck"),
        ({"command": ["x"]}, "image"),
    ],
)
def test_the_reader_finds_what_is_wrong(broken: dict[str, Any], named: str) -> None:
    assert named in str(compose_problems({"services": {"it": broken}}))


def test_all_that_is_named_exists(compose: dict[str, Any], services: dict[str, Any]) -> None:
    for name, service in services.items():
        for needed, condition in service.get("depends_on", {}).items():
            assert needed in services, name
            healthy = condition["condition"] == "service_healthy"
            assert not healthy or "healthcheck" in services[needed], (name, needed)
            ends = condition["condition"] == "service_completed_successfully"
            assert not ends or services[needed]["restart"] == "no", (name, needed)
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            known = (
                (REPOSITORY / source).exists() if "/" in source else source in compose["volumes"]
            )
            assert known, (name, volume)
        assert set(service.get("secrets", [])) <= compose["secrets"].keys(), name
        if build := service.get("build"):
            assert (REPOSITORY / build["dockerfile"]).is_file()
    for secret in compose["secrets"].values():
        assert (REPOSITORY / secret["file"]).is_file()


def test_every_volume_and_secret_is_used(compose: dict[str, Any], services: dict[str, Any]) -> None:
    mounted = {v.split(":")[0] for s in services.values() for v in s.get("volumes", [])}
    assert compose["volumes"].keys() <= mounted
    assert compose["secrets"].keys() <= {n for s in services.values() for n in s.get("secrets", [])}


def test_addresses_of_the_settings_are_services_and_their_ports(
    services: dict[str, Any], settings: Settings
) -> None:
    listeners = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"INSIDE://{settings.kafka.bootstrap}" in listeners.split(",")
    assert settings.redis.host in services
    assert f"port {settings.redis.port}" in (DOCKER / "redis" / "redis.conf").read_text().split(
        "\n"
    )
    assert settings.flink.address == "jobmanager:8081"
    assert str(settings.metrics.worker_port) in services["worker"]["healthcheck"]["test"][-1]


def test_ports_on_the_host_are_the_defaults_and_for_this_machine_only(
    services: dict[str, Any],
) -> None:
    published = {port for s in services.values() for port in s.get("ports", [])}
    default = Settings()
    wanted = {
        default.kafka.bootstrap.rpartition(":")[2],
        str(default.redis.port),
        default.flink.address.rpartition(":")[2],
    }
    assert published == {f"127.0.0.1:{port}:{port}" for port in wanted}


def test_the_model_and_its_socket_are_where_the_settings_say(
    services: dict[str, Any], settings: Settings
) -> None:
    command = services["train"]["command"]
    assert command[command.index("--out") + 1] == settings.model.path
    folder = str(Path(settings.worker.address.removeprefix("unix:")).parent)
    for name in ("worker", "taskmanager"):
        assert f"worker-socket:{folder}" in services[name]["volumes"]


def test_the_worker_has_cores_memory_and_shared_memory_of_its_own(
    services: dict[str, Any],
) -> None:
    worker, tasks = services["worker"], services["taskmanager"]
    assert worker["cpuset"] != tasks["cpuset"]
    assert mib(worker["mem_limit"]) >= 1024
    assert mib(worker["shm_size"]) >= 64


def test_memory_limits_leave_room_for_what_runs_inside(services: dict[str, Any]) -> None:
    flink = yaml.safe_load((DOCKER / "flink" / "config.yaml").read_text())
    for name in ("jobmanager", "taskmanager"):
        inside = mib(flink[f"{name}.memory.process.size"])
        assert mib(services[name]["mem_limit"]) > inside
    heap = re.search(r"-Xmx(\d+m)", services["kafka"]["environment"]["KAFKA_HEAP_OPTS"])
    assert heap is not None
    assert mib(services["kafka"]["mem_limit"]) > mib(heap.group(1))
    redis = re.search(r"maxmemory (\d+gb)", (DOCKER / "redis" / "redis.conf").read_text())
    assert redis is not None
    assert mib(services["redis"]["mem_limit"]) > mib(redis.group(1)[:-1])


def test_health_checks_do_not_touch_the_path_of_orders(services: dict[str, Any]) -> None:
    """No check starts a JVM, sends a record or asks the worker's own socket."""
    for name, service in services.items():
        check = " ".join(service.get("healthcheck", {}).get("test", []))
        assert ".sh" not in check, name
        assert "worker.sock" not in check, name


def test_commands_of_our_images_are_commands_of_ours(services: dict[str, Any]) -> None:
    for name in OURS:
        command = services[name]["command"]
        if "Dockerfile.flink" in services[name]["build"]["dockerfile"]:
            assert command[0] in ("jobmanager", "taskmanager", "tidemill")
            command = command[1:]
        assert not command or command[0] in COMMANDS, name


def test_flink_in_containers_differs_from_the_local_one_in_addresses_only() -> None:
    flink = yaml.safe_load((DOCKER / "flink" / "config.yaml").read_text())
    assert flink["env.java.opts.all"] == " ".join(render.java_module_options())
    assert flink["python.execution-mode"] == "thread"
    assert flink["taskmanager.numberOfTaskSlots"] == 1
    assert flink["execution.checkpointing.unaligned.enabled"] is True
    state = flink["execution.checkpointing.dir"].removeprefix("file://")
    assert Path(state).parent == Path("/var/lib/flink")


def test_redis_users_have_the_documented_rights_under_the_prefix_of_the_settings(
    settings: Settings,
) -> None:
    documents = (REPOSITORY / "docs" / "contracts.md").read_text()
    documented = documents.replace("<prefix>", settings.prefix).replace(
        ">SECRET", "#@PASSWORD_SHA256@"
    )
    users = (DOCKER / "redis" / "users.acl.tmpl").read_text().splitlines()
    assert users[0] == "user default off"
    for name in (settings.redis.username, "caller"):
        (line,) = [user for user in users if user.startswith(f"user {name} ")]
        assert line in documented.splitlines()


def test_images_copy_every_package_and_name_no_registry() -> None:
    for image in ("flink", "worker"):
        text = (DOCKER / f"Dockerfile.{image}").read_text()
        for package in ("tidemill", "models", "drift", "operators", "jobs", "deploy", "cli"):
            assert f"COPY {package} {package}" in text
        assert "://" not in text
        assert "constraint constraints.txt" in text
