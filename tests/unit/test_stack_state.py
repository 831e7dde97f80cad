"""The record of a running stack, and the errors of a folder that can't be used."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from deploy.errors import StackError
from deploy.local import stack as stack_module
from deploy.local.plan import Ports, StackPlan
from deploy.local.process import ProcessRecord, start_ticks
from deploy.local.stack import attach, check_folder, down
from deploy.local.state import StackState, load_state, naming_folder, stack_lock


def state(root: Path) -> StackState:
    ours = ProcessRecord("kafka", os.getpid(), start_ticks(os.getpid()) or 0, ("a", "b"), "log")
    return StackState(
        StackPlan(root, Ports.of(range(20000, 20000 + Ports.needed()))), {"kafka": ours}
    )


def test_a_saved_state_reads_back_the_same(tmp_path: Path) -> None:
    saved = state(tmp_path)
    saved.save()
    assert load_state(tmp_path) == saved
    assert [path.name for path in tmp_path.iterdir()] == ["stack.json"]


def test_no_state_is_none_and_a_broken_one_an_error(tmp_path: Path) -> None:
    assert load_state(tmp_path) is None
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(StackError, match=r"stack\.json"):
        load_state(tmp_path)


def test_a_state_of_another_version_is_not_guessed_at(tmp_path: Path) -> None:
    state(tmp_path).save()
    path = tmp_path / "stack.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 99}))
    with pytest.raises(StackError, match="99"):
        load_state(tmp_path)


def test_pids_from_before_a_reboot_mean_nothing(tmp_path: Path) -> None:
    state(tmp_path).save()
    path = tmp_path / "stack.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"boot_id": "another"}))
    loaded = load_state(tmp_path)
    assert loaded is not None
    assert loaded.processes == {}


def test_an_end_for_another_start_in_the_same_folder_touches_nothing(tmp_path: Path) -> None:
    saved = state(tmp_path)
    saved.save()
    assert down(tmp_path, instance="an earlier start") == []
    assert load_state(tmp_path) == saved


def test_no_stack_is_nothing_to_end_and_nothing_to_attach_to(tmp_path: Path) -> None:
    assert down(tmp_path / "none") == []
    assert down(tmp_path) == []
    with pytest.raises(StackError, match="tidemill up"):
        attach(tmp_path)


def test_one_start_or_stop_at_a_time(tmp_path: Path) -> None:
    with stack_lock(tmp_path), pytest.raises(StackError, match="another tidemill"):  # noqa: SIM117
        with stack_lock(tmp_path):
            pass


def test_a_full_disk_is_named_with_its_folder_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(StackError) as caught, naming_folder(tmp_path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    text = str(caught.value)
    assert str(tmp_path) in text
    assert "No space left on device" in text
    assert "--data" in text


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="can't be used"):
        check_folder(tmp_path / "file" / "run")


def test_a_nearly_full_disk_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_module, "MIN_FREE_MIB", 1 << 40)
    with pytest.raises(StackError, match="MiB left on its disk"):
        check_folder(tmp_path)
