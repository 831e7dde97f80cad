"""The demo from an empty folder to the last line: set up, play, count, clean up."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from redis import Redis
from redis.exceptions import RedisError
from rich.console import Console

from deploy.demo.act import ACTS, Script, Stage
from deploy.demo.checker import Checker
from deploy.demo.ledger import Ledger
from deploy.demo.live import Live
from deploy.demo.orders import Orders, quality, recorded_orders, trained_model
from deploy.demo.plan import REPORTING_DELAY_MS, Mix, Schedule, plan_warmup
from deploy.demo.summary import summary
from deploy.demo.tally import Report
from deploy.demo.view import console_printer, make_view
from deploy.errors import StackError
from deploy.flink_rest import FlinkRest
from deploy.local.stack import RunningStack, up
from deploy.local.state import load_state, stack_lock
from deploy.status import remedy
from deploy.submit import submit
from deploy.tools import Tools
from deploy.topics import create_topics
from tidemill.errors import TidemillError
from tidemill.settings import Settings, load_settings

INTERRUPTED: Final = 130
# The JVM compiles only what it has run often; before that it is 10 to 50 times slower. How long
# that takes depends on the machine: the warm-up ends when answers come fast, or at its limit.
WARMUP_RATE: Final = 300.0
WARMUP_S: Final = (10.0, 30.0)
WARM_P99_MS: Final = 50.0
_WARM_ANSWERS: Final = 600
_RUNNING_TIMEOUT_S: Final = 180.0  # 3 on an idle machine
_PATIENCE_S: Final = 15.0
_SHORT_PATIENCE_S: Final = 8.0  # of somebody who pressed Ctrl-C, if answers stay out
_ANSWER_TTL_S: Final = 900  # the check asks for every answer at the end
_REDIS_TIMEOUT_S: Final = 10.0

_NOT_COUNTED: Final = "the count did not come to its end: only `sent` is known"

_Trouble = (TidemillError, RedisError, OSError, ValueError)


@dataclass(frozen=True, slots=True)
class Options:
    """`seconds` of orders at `rate` a second; everything lies in `data`; `keep` leaves it running."""

    seconds: float = 60.0
    rate: float = 200.0
    data: Path = Path("run/demo")
    keep: bool = False


def run_demo(options: Options, console: Console) -> tuple[int, Report]:
    """Play the demo; returns the exit status and the counts. Nothing runs any more afterwards.

    Ctrl-C and SIGTERM end it early, what was sent until then is still counted.
    """
    demo = Demo(options, console)
    code = 1
    try:
        with _interruptible(), ExitStack() as ends:
            demo.play(ends)
        code = 0 if demo.report.good else 1
    except KeyboardInterrupt:
        demo.tell_interrupt()
        code = INTERRUPTED
    except _Trouble as error:
        demo.tell_failure(error)
    return code, demo.report


class Demo:
    """One run. ``at`` is what it does now, ``report`` what has been counted."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self._root = options.data.absolute()
        self.say = console_printer(console)
        self.at = "starting"
        self.report = Report()
        self._played = False

    def play(self, ends: ExitStack) -> None:
        """Everything, in order; ``ends`` gets what must be ended."""
        options = self._options
        with self._step("looking for tools"):
            tools = Tools(say=self.say)
            tools.fetch_all()
            for line in tools.report():
                self.say(f"  {line}")
        with self._step("training the model, or loading an earlier one"):
            spec = trained_model(self._root / "model", self.say)
            self.say(f"  {quality(spec)}")
        with self._step("reading recorded orders"):
            orders = recorded_orders(spec, int(WARMUP_S[1] * WARMUP_RATE))
            rate = min(options.rate, len(orders.counted) / options.seconds)
            if rate < options.rate:
                self.say(f"  {len(orders.counted)} orders allow {rate:.0f} a second for so long")
        with self._step("starting Kafka, Redis, Flink and the worker"):
            stack = self._start(tools, ends)
            settings = load_settings(stack.settings_path, environ={})
            create_topics(settings)
        with self._step("submitting the scoring job"):
            job = submit(stack.flink_address, stack.settings_path, tools)
            FlinkRest(stack.flink_address).wait_running(job, _RUNNING_TIMEOUT_S)
        self._perform(settings, job, orders, rate, ends)

    def tell_interrupt(self) -> None:
        """What it did when it was interrupted, and what the count found by then."""
        self.say(f"demo: interrupted while {self.at}")
        for problem in self.report.problems:
            self.say(f"PROBLEM: {problem}")

    def tell_failure(self, error: BaseException) -> None:
        """What failed, where the logs are, how to go on."""
        self.say(f"demo: failed while {self.at}: {error}")
        if known := remedy(str(error)):
            self.say(f"demo: {known}")
        for problem in self.report.problems:
            self.say(f"PROBLEM: {problem}")
        self.say(f"demo: logs are in {self._stack_root / 'logs'}")
        self.say(
            "demo: run the same command again to go on, what is fetched and trained is kept;"
            " `tidemill doctor` looks for what is wrong with this machine"
        )

    def _look_further(self) -> str:
        look = "tidemill dlq list, late, results --follow, predict"
        if self._options.keep:
            return (
                f"it still runs: {look}, each with --config {self._stack_root}/tidemill.toml;"
                f" tidemill down --data {self._stack_root} ends it"
            )
        return f"tidemill demo --keep leaves it running for a look: {look}; README.md tells more"

    @property
    def _stack_root(self) -> Path:
        return self._root / "stack"

    def _start(self, tools: Tools, ends: ExitStack) -> RunningStack:
        _clear(self._stack_root, self._root / "logs-of-last-time")
        stack = up(
            self._stack_root,
            worker=[sys.executable, "-m", "cli.main", "worker"],
            settings={
                "app": {"env": "demo"},
                "model": {"path": str(self._root / "model")},
                "redis": {"ttl_s": _ANSWER_TTL_S + int(self._options.seconds)},
            },
            owned=not self._options.keep,
            tools=tools,
        )
        ends.callback(self._end, stack)
        return stack

    def _end(self, stack: RunningStack) -> None:
        if self._played and self._options.keep:
            return
        with _uninterruptible():
            stack.down()

    def _perform(
        self, settings: Settings, job: str, orders: Orders, rate: float, ends: ExitStack
    ) -> None:
        redis = Redis(
            settings.redis.host, settings.redis.port, settings.redis.db,
            socket_timeout=_REDIS_TIMEOUT_S,
        )  # fmt: skip
        ends.callback(redis.close)
        ledger = ends.enter_context(Ledger(self._root / "ledger.jsonl"))
        stage = Stage(settings, redis, ledger, make_view(self._console))
        ends.callback(stage.close)
        checker = Checker(settings, redis)
        try:
            live = self._acts(settings, job, stage, orders, rate)
            with self._step("counting in Kafka and Redis"):
                self.report = checker.check(ledger.entries, stage.heard_ms, _PATIENCE_S)
        except (KeyboardInterrupt, *_Trouble):
            stage.interrupt()
            self.report = Report(sent=ledger.counted, problems=[_NOT_COUNTED])
            self.report = checker.check(ledger.entries, stage.heard_ms, _SHORT_PATIENCE_S)
            raise
        for line in summary(self.report, live, settings):
            self.say(line)
        self._played = True
        self.say(self._look_further())

    def _acts(
        self, settings: Settings, job: str, stage: Stage, orders: Orders, rate: float
    ) -> Live:
        options = self._options
        with self._step("warming up with orders that do not count"):
            warmup = Schedule(_now_ms(), WARMUP_S[1], WARMUP_RATE)
            live = stage.perform("warm-up", plan_warmup(orders.warmup, warmup), _warm)
        if live.answered == 0:
            cause = FlinkRest(settings.flink.address).root_cause(job)
            raise StackError(f"the job answered none of the warm-up orders: {cause or 'see logs'}")
        late_before_ms = warmup.start_ms - REPORTING_DELAY_MS - settings.job.out_of_orderness_ms
        for act in ACTS:
            with self._step(f"playing {act.title}: {rate:.0f} a second for {options.seconds:g} s"):
                schedule = Schedule(_now_ms(), options.seconds, rate)
                script = Script(orders, schedule, late_before_ms, Mix())
                live = stage.perform(act.title, act.plan(script))
        return live

    @contextmanager
    def _step(self, what: str) -> Iterator[None]:
        self.at = what
        self.say(f"demo: {what}")
        start_s = time.monotonic()
        yield
        self.say(f"  {time.monotonic() - start_s:.1f} s")


def _warm(live: Live, elapsed_s: float) -> bool:
    p99 = live.recent_p99(_WARM_ANSWERS)
    return elapsed_s > WARMUP_S[0] and p99 is not None and p99 < WARM_P99_MS


def _clear(root: Path, old_logs: Path) -> None:
    """Empty the folder of the last demo's stack but for its logs, which may say why it failed.

    One that runs is left for `up` to refuse.
    """
    with stack_lock(root):
        state = load_state(root)
        if state is not None and any(record.alive() for record in state.processes.values()):
            return
        for entry in root.iterdir():
            if entry.name == "logs":
                shutil.rmtree(old_logs, ignore_errors=True)
                entry.replace(old_logs)
            elif entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != "stack.lock":
                entry.unlink()


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM and SIGINT both raise KeyboardInterrupt, whatever was set before."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: Any) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def _uninterruptible() -> Iterator[None]:
    """Cleaning up takes some seconds at most; half of it would leave processes behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _interrupt)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
