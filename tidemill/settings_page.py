"""The page docs/settings.md, made from the settings themselves: `python -m tidemill.settings_page`."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Final

from tidemill.settings import SECTIONS, Secret, Section

_HEAD: Final = """\
# Settings

One TOML file, then the environment, then what a program gives itself; later ones win.

* The file is `--config FILE`, else the one named by `TIDEMILL_CONFIG`, else `./tidemill.toml`.
* The environment variable of a key is `TIDEMILL_<SECTION>__<KEY>`, with two underscores:
  `TIDEMILL_KAFKA__BOOTSTRAP`. Tables are given as JSON there.
* In Python, `load_settings(overrides={"kafka.bootstrap": "b:9092"})` or
  `Tidemill(kafka__bootstrap="b:9092")`.
* A **secret** is read from the environment or from a file: for `password` set `password_file` (or
  `TIDEMILL_REDIS__PASSWORD_FILE`) to its path. Secrets are never shown in logs, errors or `status`;
  nor are options of `kafka.client` and `kafka.java` whose names speak of passwords, secrets or tokens.
* A typo is an error that suggests the right key, a value over its limit is an error that names it.

```toml
[kafka]
bootstrap = "broker-1:9093,broker-2:9093"
security_protocol = "SASL_SSL"
sasl_mechanism = "SCRAM-SHA-512"
sasl_username = "tidemill"
sasl_password_file = "/run/secrets/kafka"
ssl_ca = "/etc/ssl/kafka-ca.pem"

[kafka.client]
"socket.keepalive.enable" = "true"

[redis]
host = "redis.internal"
tls = true
username = "tidemill"
password_file = "/run/secrets/redis"

[event.features]
distance_km = { pointer = "/trip/metres", scale = 0.001 }
rain = { pointer = "/weather/rain", default = 0 }
```
"""


def render() -> str:
    """The whole page."""
    return _HEAD + "".join(_section(section) for section in SECTIONS.values())


def _section(section: type[Section]) -> str:
    about = (section.__doc__ or "").strip().partition("\n")[0]
    rows = "".join(_row(field) for field in dataclasses.fields(section))  # type: ignore[arg-type]
    return f"\n## [{section.section}]\n\n{about}\n\n| key | default | |\n|---|---|---|\n{rows}"


def _row(field: dataclasses.Field[Any]) -> str:
    about = field.metadata["doc"] + _limits(field.metadata)
    return f"| `{field.name}` | {_default(field)} | {about} |\n"


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is dataclasses.MISSING:
        return "secret" if field.default_factory is Secret else "empty table"
    value = field.default
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "empty" if value == "" else f"`{value}`"


def _limits(limits: Any) -> str:
    if limits.get("choices"):
        return f" One of {', '.join(f'`{choice}`' for choice in limits['choices'] if choice)}."
    low, high = limits.get("low"), limits.get("high")
    if low is None and high is None:
        return ""
    return f" From {low}{'' if high is None else f' to {high}'}."


if __name__ == "__main__":
    sys.stdout.write(render())
