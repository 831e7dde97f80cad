"""The services that the settings name: Kafka, Redis, Flink, the ports. Each check asks one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from deploy.doctor.finding import Finding, note, ok, problem
from deploy.errors import FlinkError
from deploy.flink_rest import FlinkRest
from deploy.local.ports import port_is_free
from deploy.topics import topic_states
from tidemill.errors import TidemillError
from tidemill.settings import RedisSettings, Settings

_FLINK_VERSION = "2.3"
_REDIS_TIMEOUT_S = 3.0
_INFO_RIGHT = "to have version and memory checked: +ping +info"
# Jars of a cluster's lib folder without which jobs fail, and how that looks.
_LIB_JARS = {
    "flink-python": "every restart of a job dies with NoSuchFieldException (FLINK-37727): copy"
    " opt/flink-python-*.jar into lib and restart the cluster",
    "flink-sql-connector-kafka": "copy the connector's jar into lib, or submit with --ship",
    "tidemill-bridge": "copy the bridge's jar into lib, or submit with --ship",
}


def check_services(settings: Settings) -> list[Finding]:
    """All checks of services; none raises."""
    return [
        *check_kafka(settings),
        *check_redis(settings.redis),
        *check_flink(FlinkRest(settings.flink.address)),
        *check_ports(settings, port_is_free),
    ]


def check_kafka(settings: Settings) -> Iterator[Finding]:
    """The broker, and what there is of the topics."""
    try:
        states = topic_states(settings)
    except TidemillError as error:
        yield problem("kafka", settings.kafka.bootstrap, str(error))
        return
    yield ok("kafka", f"{settings.kafka.bootstrap} answers")
    bad = [state for state in states if state.problem]
    for state in bad:
        level = problem if state.partitions == 0 or state.role == "control" else note
        yield level(f"topic {state.name}", state.problem, "tidemill topics --create, or see docs")
    if not bad:
        yield ok("topics", f"all {len(states)} are there")


def check_redis(settings: RedisSettings) -> Iterator[Finding]:
    """Version, eviction policy and rights of the user."""
    import redis

    where = f"{settings.host}:{settings.port}"
    tls: dict[str, Any] = {}
    if settings.tls:
        tls = {
            "ssl": True,
            "ssl_ca_certs": settings.tls_ca or None,
            "ssl_certfile": settings.tls_cert or None,
            "ssl_keyfile": settings.tls_key or None,
        }
    client = redis.Redis(
        host=settings.host,
        port=settings.port,
        db=settings.db,
        username=settings.username or None,
        password=settings.password.reveal() or None,
        socket_timeout=_REDIS_TIMEOUT_S,
        socket_connect_timeout=_REDIS_TIMEOUT_S,
        **tls,
    )
    with client:
        try:
            client.ping()
            yield ok("redis", f"{where} answers")
            yield redis_version(_info(client, "server"))
            yield redis_policy(_info(client, "memory"))
        except redis.exceptions.NoPermissionError:
            yield note("redis", f"{where} answers, INFO is not allowed to this user", _INFO_RIGHT)
        except (redis.exceptions.RedisError, OSError) as error:
            yield problem("redis", f"{where}: {error}", "check redis.host, port, user and password")


def _info(client: Any, section: str) -> dict[str, Any]:
    return dict(client.info(section))  # typed as if it might be asynchronous


def redis_version(info: dict[str, Any]) -> Finding:
    """Answers are written by a script that counts on Redis 7."""
    version = str(info.get("valkey_version") or info.get("redis_version", "0"))
    if int(version.split(".")[0]) >= 7:
        return ok("redis version", version)
    return problem("redis version", version, "use Redis 7 or later, or Valkey")


def redis_policy(info: dict[str, Any]) -> Finding:
    """What goes first when the memory is full."""
    policy, limit = str(info.get("maxmemory_policy", "")), int(info.get("maxmemory", 0))
    if limit == 0:
        return note("redis memory", "no maxmemory", "set one: without it the machine swaps first")
    if policy in ("volatile-ttl", "noeviction"):
        return ok("redis memory", f"{limit >> 20} MiB, {policy}")
    return note(
        "redis memory", policy, "volatile-ttl lets the answers go first that expire next anyway"
    )


def check_flink(rest: FlinkRest) -> Iterator[Finding]:
    """Version, free slots and the jars of the cluster's lib folder."""
    try:
        overview = rest.overview()
        classpath = str(rest.get("/jobmanager/environment").get("classpath", ""))
    except FlinkError as error:
        yield problem("flink", rest.address, str(error))
        return
    version = str(overview["flink-version"])
    if version.startswith(_FLINK_VERSION):
        yield ok("flink", f"{rest.address} answers, version {version}")
    else:
        yield problem("flink", f"version {version}", f"jobs are built for {_FLINK_VERSION}")
    yield flink_slots(overview)
    yield from lib_jars(classpath)


def flink_slots(overview: dict[str, Any]) -> Finding:
    """Room for a job."""
    shown = f"{overview['slots-available']} of {overview['slots-total']} free"
    if overview["slots-available"] or overview["jobs-running"]:
        return ok("flink slots", shown)
    return problem("flink slots", shown, "start a TaskManager: no job can run")


def lib_jars(classpath: str) -> Iterator[Finding]:
    """The jars that must lie in the cluster's own lib folder."""
    for jar, remedy in _LIB_JARS.items():
        if jar in classpath:
            yield ok(f"jar {jar}", "in the cluster's lib folder")
        else:
            level = problem if jar == "flink-python" else note
            yield level(f"jar {jar}", "not in the cluster's lib folder", remedy)


def check_ports(settings: Settings, is_free: Callable[[int], bool]) -> Iterator[Finding]:
    """Ports that our own programs would open for Prometheus."""
    wanted = {
        "metrics.worker_port": settings.metrics.worker_port,
        "metrics.relay_port": settings.metrics.relay_port,
    }
    for key, port in wanted.items():
        if port and not is_free(port):
            yield note(f"port {port}", "in use", f"fine if {key}'s program runs; else change {key}")
        elif port:
            yield ok(f"port {port}", f"free for {key}")
