"""Producers beside a trainer: child processes that live as long as its loader, and start again when they die.

They are processes of the command `headrace produce`, not threads: neither their memory nor a crash of somebody's transform is
the trainer's. Stopping or killing them at any moment is safe, and so is starting more: a stream is the same whatever happens to
its producers.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, TypeVar

from headrace import errors

if TYPE_CHECKING:
    from headrace import _core

_log = logging.getLogger("headrace")

# A child asks the kernel for a signal when its parent dies, which it does even by SIGKILL, and becomes the producer.
_LAUNCH = (
    "import ctypes, os, signal, sys\n"
    "ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGTERM, 0, 0, 0)\n"
    "os.getppid() == int(sys.argv[1]) or sys.exit(3)\n"  # it died before that
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)
_LOOK_SECONDS = 0.1
_LOOK_AT_FIRST_SECONDS = 0.01  # while somebody waits for the first step
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
# One that has run for so long was healthy: its failures before that do not count.
_HEALTHY_SECONDS = 60.0
_TRIES = 5
_PRODUCERS_PORT_SHIFT = 32
_DRAIN = "2s"
_STOP_SECONDS = 3.0
# What starting again does not change.
_HOPELESS = (errors.Conflict, errors.InvalidArgument, errors.Unsupported, errors.Corrupt, errors.NotFound)
_WRONG_WORDS = 2


class _Child:
    """One producer, over all its lives."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.out: IO[bytes] | None = None
        self.opened: int | None = None  # readable when it has opened the stream, and found that it is the recipe's
        self.said: deque[str] = deque(maxlen=40)
        self.reader: threading.Thread | None = None
        self.started = 0.0
        self.failures = 0
        self.start_at = 0.0
        self.dead: int | None = None  # the process of its life before, whose strands it takes over at once
        self.over = False
        self.failed: errors.Error | None = None


def _metrics_environment() -> dict[str, str]:
    """Producers leave the ports below to the ranks of this machine."""
    host, colon, port = os.environ.get("HEADRACE_METRICS", "").rpartition(":")
    if not colon or not port.isdecimal() or int(port) == 0:
        return {}
    return {"HEADRACE_METRICS": f"{host}:{min(65535, int(port) + _PRODUCERS_PORT_SHIFT)}"}


class Producers:
    """Runs `count` producers of a recipe until `stop`, or until they have filled the stream."""

    def __init__(self, recipe: Any, stream: str, count: int = 1) -> None:  # noqa: ANN401
        from headrace.producing import CALLED_BY, command, failure, recipe_words

        if count < 1:
            raise errors.InvalidArgument(f"producers={count}: at least one, or none at all (give the stream's URI, no recipe)")
        self._stack = contextlib.ExitStack()
        self._inherited: list[int] = []  # descriptors that children have under the same numbers
        words = self._stack.enter_context(recipe_words(recipe, self._inherited))
        self._command = [command(), "produce", *words, "--stream", stream, "--drain", _DRAIN, "--json"]
        self._failure_of = failure
        self._environment = CALLED_BY
        self._children = [_Child() for _ in range(count)]
        self._failed: errors.Error | None = None
        self._refused: errors.Error | None = None  # before any of them had opened the stream
        self._told = False
        self._stopping = threading.Event()
        self._known = threading.Event()
        self._pid = os.getpid()
        self._core: Callable[[], _core.Loader | None] = lambda: None
        # The kernel's signal comes when the thread that started a child ends: this one does not before `stop`.
        self._thread = threading.Thread(target=self._look_after, name="headrace-producers", daemon=True)
        self._thread.start()

    def serve(self, loader: Any) -> None:  # noqa: ANN401
        """Ends with this loader, and ends its waiting if there is nothing to wait for."""
        held = weakref.ref(loader)

        def core() -> _core.Loader | None:
            alive = held()
            return alive._core if alive is not None else None

        self._core = core
        weakref.finalize(loader, self.stop)

    @property
    def failure(self) -> errors.Error | None:
        """Why no producer runs any more, if they have not filled the stream."""
        return self._failed

    def wait_until_known(self, timeout: float) -> None:
        """Returns when a producer has found that the stream is the recipe's, and raises why it is not.

        If none could say (a store that does not answer, after all tries), what is there is handed out.
        """
        if not self._known.wait(timeout):
            raise errors.Stalled(f"no producer has compared the stream with its recipe within {timeout:.0f} s")
        if self._refused is not None:
            raise self._refused

    @property
    def pids(self) -> list[int]:
        return [child.process.pid for child in self._children if child.process is not None and child.process.poll() is None]

    def stop(self) -> None:
        if os.getpid() != self._pid or self._stopping.is_set():
            return
        self._stopping.set()
        self._thread.join(_STOP_SECONDS + 2)
        self._stack.close()

    # --- On the thread ---------------------------------------------------------------------------------------------------

    def _look_after(self) -> None:
        while not self._stopping.is_set():
            now = time.monotonic()
            for child in self._children:
                if child.over:
                    continue
                if child.process is None:
                    if now >= child.start_at:
                        self._start(child, now)
                    continue
                self._look_whether_opened(child)
                if child.process.poll() is not None:
                    self._look_whether_opened(child)
                    self._ended(child, now)
            if self._failed is None and all(child.over for child in self._children):
                self._failed = next((child.failed for child in self._children if child.failed is not None), None)
            if self._failed is not None:
                self._known.set()
                self._end_waiting()
            self._stopping.wait(_LOOK_SECONDS if self._known.is_set() else _LOOK_AT_FIRST_SECONDS)
        self._end()
        for child in self._children:
            _close(child)

    def _start(self, child: _Child, now: float) -> None:
        child.out = tempfile.TemporaryFile()  # noqa: SIM115
        child.said.clear()
        child.opened, tell = os.pipe()
        os.set_blocking(child.opened, False)
        launch = [sys.executable, "-I", "-S", "-c", _LAUNCH, str(os.getpid())]
        command = [*launch, *self._command, "--opened-fd", str(tell)]
        if child.dead is not None:
            command += ["--replaces", str(child.dead)]
        environment = {**os.environ, **self._environment, "HEADRACE_PROGRESS": "0", **_metrics_environment()}
        # A session of its own: Ctrl-C is for the trainer, which ends its producers in order.
        try:
            child.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=child.out,
                stderr=subprocess.PIPE,
                env=environment,
                start_new_session=True,
                pass_fds=(tell, *self._inherited),
            )
        finally:
            os.close(tell)
        child.started = now
        child.reader = threading.Thread(
            target=_listen, args=(child.process, child.said), name="headrace-producer-log", daemon=True
        )
        child.reader.start()

    def _look_whether_opened(self, child: _Child) -> None:
        if child.opened is None:
            return
        with contextlib.suppress(BlockingIOError):
            if os.read(child.opened, 1):
                self._known.set()
            _close(child)

    def _ended(self, child: _Child, now: float) -> None:
        assert child.process is not None
        assert child.out is not None
        assert child.reader is not None
        child.dead = child.process.pid
        status, child.process = child.process.returncode, None
        _close(child)
        child.reader.join(1)
        child.out.seek(0)
        answer = child.out.read().decode(errors="replace")
        child.out.close()
        if status == 0:
            # It ends before the stream is full only if somebody told it to.
            child.over = _sealed(answer)
            self._tell_of_changes(answer)
            child.start_at = now + _FIRST_PAUSE_SECONDS
            return
        failed = self._failure_of(answer, "\n".join(child.said))
        if status < 0:
            last = f". It last said: {' / '.join(child.said)}" if child.said else ""
            failed = errors.Error(f"a producer was killed by {signal.Signals(-status).name}{last}")
        child.failures = 1 if now - child.started > _HEALTHY_SECONDS else child.failures + 1
        if isinstance(failed, _HOPELESS) or status == _WRONG_WORDS or child.failures >= _TRIES:
            child.over = True
            child.failed = type(failed)(
                f"no producer fills the stream: {failed}" + (f" (tried {child.failures} times)" if child.failures > 1 else "")
            )
            _log.error("a producer failed for good: %s", failed)
            if isinstance(failed, _HOPELESS) and not self._known.is_set():
                self._failed = self._refused = child.failed  # the others have the same recipe
            return
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2 ** (child.failures - 1))
        child.start_at = now + pause
        _log.warning("a producer ended (%s) and is started again in %.1f s", failed, pause)

    def _tell_of_changes(self, answer: str) -> None:
        with contextlib.suppress(ValueError, AttributeError):
            said = json.loads(answer)
            if said.get("changed_files") and not self._told:
                self._told = True
                _log.warning(
                    "%d files have changed since the stream was made, such as %s: it is sealed and its steps stay as they are. "
                    "For steps of what the files have now, name another stream: Loader(uri, recipe=…)",
                    said["changed_files"],
                    said["changed_file"],
                )

    def _end_waiting(self) -> None:
        """Whoever waits for a step that nobody will make is woken; steps that are there are handed out first."""
        core = self._core()
        with contextlib.suppress(errors.Error):
            if core is not None and not core.closed and core.stats()["steps_ahead"] <= 0:
                core.close(0.0)

    def _end(self) -> None:
        running = [child.process for child in self._children if child.process is not None]
        for process in running:
            process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()  # safe at any moment
                process.wait()


def _close(child: _Child) -> None:
    if child.opened is not None:
        os.close(child.opened)
        child.opened = None


def _sealed(answer: str) -> bool:
    try:
        return bool(json.loads(answer).get("sealed", True))
    except (ValueError, AttributeError):
        return True


def _listen(process: subprocess.Popen[bytes], said: deque[str]) -> None:
    assert process.stderr is not None
    with process.stderr as lines:
        for line in lines:
            text = line.decode(errors="replace").rstrip()
            said.append(text)
            _log.debug("producer %d: %s", process.pid, text)


def stream_of(recipe: Any) -> str:  # noqa: ANN401
    """The stream that a recipe fills."""
    from headrace import producing

    return producing.stream_of(recipe)


def require_same(recipe: Any, stream: str) -> None:  # noqa: ANN401
    """Of a rank that starts no producers: its recipe is the stream's, or it is told what differs, as the others are."""
    from headrace import producing

    try:
        producing.compare(recipe, stream)
    except (errors.Conflict, errors.InvalidArgument):
        raise
    except errors.Error as error:
        # This rank reads what is there and needs nothing else: the ranks that make it have compared.
        _log.warning("cannot tell whether %s was made by this rank's recipe: %s", stream, error)


def starts_producers(is_first: bool) -> bool:
    """Whether this process is the one of its machine that does."""
    for name in ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"):
        if name in os.environ:
            return int(os.environ[name]) == 0
    return is_first


T = TypeVar("T")


def open_when_there(open_stream: Callable[[], T], timeout: float, producers: Producers | None) -> T:
    """Opens a stream that somebody is about to create."""
    deadline = time.monotonic() + timeout
    pause = 0.02
    while True:
        try:
            return open_stream()
        except errors.NotFound as error:
            if producers is not None and producers.failure is not None:
                raise producers.failure from None
            if time.monotonic() > deadline:
                raise errors.Stalled(f"no producer has created the stream within {timeout:.0f} s: {error}") from None
        time.sleep(pause)
        pause = min(0.5, pause * 1.5)
