"""Contract: docs/settings.md is what the settings are, and its example is accepted."""

from __future__ import annotations

import re
from pathlib import Path

from tidemill.settings import FeaturePointer, Secret, load_settings
from tidemill.settings_page import render

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_is_up_to_date() -> None:
    remedy = "run: python -m tidemill.settings_page > docs/settings.md"
    assert PAGE.read_text(encoding="utf-8") == render(), remedy


def test_the_example_of_the_page_loads(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", render(), re.DOTALL)
    assert found
    secret = tmp_path / "secret"
    secret.write_text("hidden\n")
    file = tmp_path / "tidemill.toml"
    file.write_text(re.sub(r'"/run/secrets/\w+"', f'"{secret}"', found[1]))
    settings = load_settings(file, {})
    assert settings.redis.password == Secret("hidden")
    assert settings.event.features["distance_km"] == FeaturePointer("/trip/metres", 0.001)
    assert settings.kafka.client_config()["sasl.mechanism"] == "SCRAM-SHA-512"
