"""The loader: a rank's share of a stream, step after step."""

from __future__ import annotations

import atexit
import contextlib
import difflib
import functools
import json
import logging
import operator
import os
import re
import secrets
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

from headrace import _core
from headrace import mesh as _mesh
from headrace._stream import OpenStream, options_of
from headrace.batch import Column, Layout
from headrace.errors import Error, InvalidArgument, NotFound, Unsupported
from headrace.step import Step, Turn

if TYPE_CHECKING:
    from headrace.embedded import Producers

_log = logging.getLogger("headrace")

STATE_VERSION = 1
KEYWORDS = ["uri"]  # what a loader is opened with

Arguments = ParamSpec("Arguments")

_open: weakref.WeakSet[Loader] = weakref.WeakSet()


def _lineage(uri: str, options: dict[str, str], step: int, first: int, end: int) -> list[dict[str, Any]]:
    from headrace.producing import run

    samples = run(["lineage", uri, "--step", str(step)], options)["samples"]
    return [sample for sample in samples if first <= sample["lane"] < end]


def check_keywords(given: Iterable[str], known: Iterable[str]) -> None:
    """Refuses arguments that no loader has, and says which one may be meant."""
    known = list(known)
    for name in given:
        if name in known:
            continue
        if name in ("device", "views", "broadcast_at", "groups"):
            raise TypeError(f"Loader() has no argument {name!r}: that of headrace.torch has, from headrace.torch import Loader")
        near = difflib.get_close_matches(name, known, 1)
        words = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known)}"
        raise TypeError(f"Loader() has no argument {name!r}: {words}")


def _keywords_checked(init: Callable[Arguments, None]) -> Callable[Arguments, None]:
    KEYWORDS.extend(getattr(init, "__kwdefaults__", None) or ())

    @functools.wraps(init)
    def checked(*args: Arguments.args, **how: Arguments.kwargs) -> None:
        check_keywords(how, KEYWORDS)
        init(*args, **how)

    return checked


class Loader(OpenStream):
    """Hands out this rank's lanes of one step after another, each exactly once, reading ahead in the background.

    Args:
        uri: the stream: s3://bucket/prefix, file:///path, a plain path.
        recipe: makes the stream: producers run beside the trainer as child processes of each machine's first rank, and end with
            it. The stream is the recipe's, or `uri`.
        producers: how many of them on each machine (1).
        dp: (rank, size) of data parallelism; or
        mesh: {"dp": (rank, size), "cp": …, "tp": …, "pp": …} or a torch DeviceMesh.
            Neither: RANK and WORLD_SIZE, as pure data parallelism.
        format: the names and conventions of the batch: plain, hf, torchtitan, megatron.
        cp: what context-parallel peers get: the whole sequences (frameworks cut them), or their part: contiguous, head_tail.
        role: train; or eval, which can be iterated again and holds nobody back.
        timeout: seconds to wait for a step before `Stalled` is raised ("90s", "5m" are fine, too); a warning comes after
            `warn_after`.
        window: bytes that may be in memory or on their way, beyond what was handed out.
        ack: auto: a step counts as consumed when it is handed out; manual: when `done(n)` says so.
        uneven: allow data-parallel sizes that do not divide the lanes.
        collect: on the first rank, give back what no pin needs, every so many seconds (True: 600).
        metrics: "HOST:PORT": serve metrics for Prometheus there, while this loader is open (HEADRACE_METRICS if not given; "" for
            none). Ranks of one machine share the wish: each adds its LOCAL_RANK to the port, and takes the next free one.
        storage_options: how to reach the store.
    """

    # For benchmarks: (seconds of latency, bytes a second per request), as a far store has them.
    _slow: tuple[float, float] | None = None
    _producers: Producers | None = None
    # Of the step that was handed out last. An earlier one's micro-batches are settled, whether they were all taken or not.
    _turn: Turn | None = None
    # For tests: seconds until what is reported is written.
    _report_every: float | None = None
    _reports_as: _mesh.Mesh | None = None

    @_keywords_checked
    def __init__(
        self,
        uri: str | None = None,
        *,
        recipe: Any = None,  # noqa: ANN401
        producers: int | None = None,
        dp: tuple[int, int] | None = None,
        mesh: Any = None,  # noqa: ANN401
        format: str = "plain",
        cp: str = "whole",
        role: str = "train",
        timeout: float | str = 300,
        warn_after: float | str = 10,
        window: int | str = "512MB",
        ack: str = "auto",
        uneven: bool = False,
        collect: bool | float | str = False,
        metrics: str | None = None,
        storage_options: dict[str, str] | None = None,
    ) -> None:
        if recipe is None:
            if uri is None:
                raise InvalidArgument("which stream? Loader(uri), or Loader(recipe=…) to make one")
            if producers is not None:
                raise InvalidArgument("producers= are started for a recipe: Loader(recipe=…, producers=…)")
        if role not in ("train", "eval"):
            raise InvalidArgument(f"role= is train or eval, not {role!r}")
        if ack not in ("auto", "manual"):
            raise InvalidArgument(f"ack= is auto or manual, not {ack!r}")
        timeout, warn_after = _seconds("timeout", timeout), _seconds("warn_after", warn_after)
        collect = collect if isinstance(collect, bool) else _seconds("collect", collect)
        window_bytes = _bytes("window", window)
        self._mesh = _mesh.resolve(dp, mesh)
        self._format = format
        self._cp = cp
        self._role = role
        self._ack = ack
        self._uneven = uneven
        self._began = False
        self._pass = 0
        self._start = 0
        self._furthest = 0  # steps below were handed out, whatever the cursor says now
        self._acked = 0
        self._keep: int | None = None
        self._pinned: dict[str, None] = {}  # pins of this loader, in the order in which it made them
        options = self._options = options_of(storage_options)
        self._metrics = _serve_metrics(metrics)
        how = (options, window_bytes, timeout, warn_after, self._slow)
        if recipe is None:
            self._core = _core.Loader(str(uri), *how)
        else:
            self._core = self._open_recipe(recipe, uri, 1 if producers is None else producers, how)
        self._info = self._core.info()
        self._columns = {name: Column(name, dtype, kind, index) for name, dtype, kind, index in self._info["columns"]}
        self._take_share()
        _open.add(self)
        if collect and self._mesh.is_first:
            self._core.collect(600.0 if collect is True else collect, 60.0)

    def _open_recipe(self, recipe: Any, uri: str | None, count: int, how: tuple[Any, ...]) -> _core.Loader:  # noqa: ANN401
        from headrace.embedded import Producers, open_when_there, require_same, starts_producers, stream_of

        stream = str(uri) if uri is not None else stream_of(recipe)
        self._producers = Producers(recipe, stream, count) if starts_producers(self._mesh.is_first) else None
        try:
            core = open_when_there(lambda: _core.Loader(stream, *how), how[2], self._producers)
            if self._producers is not None:
                self._producers.wait_until_known(max(60.0, how[2]))  # a child starts, and its transforms
            else:
                require_same(recipe, stream)
        except BaseException:
            if self._producers is not None:
                self._producers.stop()
            raise
        if self._producers is not None:
            self._producers.serve(self)
        return core

    def _take_share(self) -> None:
        lanes = self._info["lanes"]
        rank, size = self._mesh.dp
        first, end = _core.lanes_of_rank(lanes, rank, size, self._uneven)
        own = weakref.ref(self)  # steps may outlive their loader, and shall not keep it
        self._layout = Layout(
            columns=self._columns,
            packed=self._info["packed"],
            format=self._format,
            cp=self._cp,
            cp_rank=self._mesh.cp[0],
            cp_size=self._mesh.cp[1],
            lanes=lanes,
            most_lanes=-(-lanes // size),
            source_names=functools.cache(lambda mixture: () if (loader := own()) is None else loader._source_names(mixture)),
            lineage=functools.partial(_lineage, self._info["uri"], self._options),
        )
        self._core.set_lanes(first, end)
        self._core.set_hold(self._role == "train" and self._mesh.is_first)
        _log.info("%s reads lanes %d to %d of %d of %s", self._mesh, first, end - 1, lanes, self._info["uri"])

    def _source_names(self, mixture: int) -> tuple[str, ...]:
        # Sources may be added to a living stream, by a mixture that names all of them.
        if mixture:
            with contextlib.suppress(NotFound):  # too old to be told apart: what was there at first still has its name
                return _names(json.loads(self._core.read_mixture(mixture)))
        # A stream that was not made from a recipe has none.
        return _names(self._recipe_words().get("first", {}))

    def _recipe_words(self) -> dict[str, Any]:
        """What the stream remembers of its recipe; nothing if it has none."""
        made = json.loads(self._core.read_object("stream.json") or b"{}").get("recipe")
        return json.loads((made and self._core.read_object(made)) or b"{}")

    # --- What it reads ---------------------------------------------------------------------------------------------------

    @property
    def columns(self) -> dict[str, Column]:
        return dict(self._columns)

    @property
    def mesh(self) -> _mesh.Mesh:
        return self._mesh

    # --- Iterating -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Step]:
        self._core.check()
        _refuse_in_workers()
        if self._role == "eval":
            self._pass += 1
            if self._began:
                self._furthest = max(self._furthest, self._core.cursor)
                self._core.seek(self._start)
                self._turn = None
        return _Steps(self, self._pass)

    def _next(self, which: int) -> Step:
        if which != self._pass:
            raise InvalidArgument("another iteration of this loader has begun: an eval loader has one at a time")
        if not self._began:
            self._start = self._core.cursor
            self._began = True
            if self._mesh.is_first:
                # Producers keep a lead over it.
                self._core.report_position(secrets.token_hex(6), self._role, 2.0)
        self._turn = None
        try:
            core = self._core.next()
        except Error:
            if self._producers is not None and self._producers.failure is not None:
                raise self._producers.failure from None
            raise
        if core is None:
            length = self._ended_before(self._core.cursor)
            if length is not None:  # it was not sealed yet when it was told to go on there
                _log.warning("no step %d will come: %s was sealed with %d steps", self._core.cursor, self._info["uri"], length)
            raise StopIteration
        return self._take_turn(core)

    def _take_turn(self, core: Any) -> Step:  # noqa: ANN401
        self._turn = Turn(core.number)
        return Step(core, self._layout, self._turn)

    def __len__(self) -> int:
        length = self._core.length()
        if length is None:
            raise TypeError("a stream that is not sealed has no length yet: steps are still being added")
        return length

    def step(self, number: int) -> Step:
        """Any step, without moving on."""
        core = self._core.read(_step_number(number))
        self._furthest = max(self._furthest, core.number + 1)
        return Step(core, self._layout)

    def seek(self, number: int) -> None:
        """Goes on at this step."""
        number = _step_number(number)
        length = self._ended_before(number)
        if length is not None:
            raise InvalidArgument(
                f"there is nothing to go on with at step {number}: {self._info['uri']} is sealed and has {length} steps. "
                f"Its end is seek({length})"
            )
        if self._began:
            self._furthest = max(self._furthest, self._core.cursor)
        self._core.seek(number)
        self._turn = None
        self._acked = number
        if not self._began:
            self._start = number

    def _ended_before(self, number: int) -> int | None:
        """How many steps the stream has, if it is known to have ended before this one, and not because the rest is skipped."""
        length = self._core.known_length
        if length is None or number <= length or any(first <= length and number <= end for first, end in self._core.skipped):
            return None
        return length

    def skip(self, steps: range) -> None:
        """Leaves these steps out, now and after every resume: they stand in the state."""
        if not isinstance(steps, range) or steps.step != 1:
            raise InvalidArgument("skip() takes a range of steps: skip(range(100, 110))")
        if len(steps):
            _step_number(steps.start)
            self._core.skip(steps.start, steps.stop)

    def done(self, number: int) -> None:
        """With ack="manual": this step and all before it are consumed."""
        if self._ack != "manual":
            raise InvalidArgument('done() is for loaders with ack="manual"; others count a step when they hand it out')
        number = _step_number(number)
        if number >= self._core.cursor:
            raise InvalidArgument(
                f"step {number} cannot be done: it was not handed out yet (the next one is {self._core.cursor})"
            )
        self._acked = max(self._acked, number + 1)

    def resize(self, dp: tuple[int, int] | None = None, mesh: Any = None) -> None:  # noqa: ANN401
        """Another share from the next step on: the job has grown or shrunk."""
        self._core.check()
        before = self._mesh
        self._mesh = _mesh.resolve(dp, mesh)
        try:
            self._take_share()
        except Error:
            self._mesh = before
            raise

    # --- State -----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where to go on: small, JSON, and the same on every rank.

        At a step whose micro-batches were not all handed out yet; else at the one after the last that was handed out.
        """
        next_step = self._core.cursor
        if self._ack == "manual":
            next_step = self._acked
        elif self._turn is not None and self._turn.inside:
            next_step = self._turn.number
        return {
            "version": STATE_VERSION,
            "stream": self._info["uuid"],
            "next_step": next_step,
            "skipped": [[first, end] for first, end in self._core.skipped],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where `state` was taken, on any number of ranks. Only before the first step."""
        if self._began:
            raise InvalidArgument(
                "load_state_dict() after iteration began: steps were handed out already. Load the state first, "
                "or say seek(n) if moving is meant"
            )
        try:
            version, stream, next_step = state["version"], state["stream"], state["next_step"]
            skipped = [(int(first), int(end)) for first, end in state.get("skipped", ())]
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidArgument(f"this is no state of a loader: {state!r:.200}") from error
        if version != STATE_VERSION:
            raise Unsupported(f"the state has version {version!r}, and this Headrace knows {STATE_VERSION}")
        if stream != self._info["uuid"]:
            raise InvalidArgument(
                f"the state is of the stream {stream}, and {self._info['uri']} is {self._info['uuid']}: its steps are others"
            )
        if not isinstance(next_step, int) or next_step < 0:
            raise InvalidArgument(f"this is no state of a loader: next_step is {next_step!r}")
        for first, end in skipped:
            self._core.skip(first, end)
        self.seek(next_step)

    # --- Checkpoints -----------------------------------------------------------------------------------------------------

    def pin(self, name: str, step: int | None = None) -> None:
        """Holds the stream from the state's step on (or from `step`), until `unpin`. All ranks may say it."""
        if step is None:
            step = self.state_dict()["next_step"]
        self._core.pin(name, _step_number(step))
        self._stem = _stem(name)
        self._pinned.pop(name, None)
        self._pinned[name] = None
        self._warn_if_unnumbered(name)
        self._drop_old_pins()

    def unpin(self, name: str) -> bool:
        """Lets go of a pin. False, and a warning, if there was none: another rank may have been quicker."""
        self._pinned.pop(name, None)
        if self._core.unpin(name):
            return True
        there = ", ".join(sorted(self.pins())) or "none at all"
        _log.warning("unpin: the stream has no pin %s; its pins are: %s", name, there)
        return False

    def pins(self) -> dict[str, int]:
        """All pins of the stream, and the steps that they hold."""
        return {name: step for name, step, *_ in self._core.pins()}

    def keep_last(self, count: int) -> None:
        """Of pins that differ in a number at the end only (ckpt-100, ckpt-200), keep the `count` that were made last.

        It acts on names like that of the pin that this loader made last: now, if it has made one, and after every `pin` from
        then on; whoever made the others. What counts is when they were made, not their steps: after going back to an older
        checkpoint, the pins of the steps that were left count as old. Pins whose names do not end in a number stay until `unpin`.
        """
        if count < 1:
            raise InvalidArgument(
                f"keep_last({count}): without any pin the checkpoint that was just written could not be resumed"
            )
        self._keep = count
        self._drop_old_pins()

    _stem: str | None = None
    _warned_of_names = False

    def _warn_if_unnumbered(self, name: str) -> None:
        if self._keep is None or self._warned_of_names or _stem(name) != name:
            return
        self._warned_of_names = True
        _log.warning("keep_last(%d) lets no pin like %s go: names have to end in a number, like %s-100", self._keep, name, name)

    def _drop_old_pins(self) -> None:
        if self._keep is None or self._stem is None:
            return
        # The log knows the order in which they were made; this loader knows it of its own, also of those that it found there
        # when it made them (another rank was quicker, or an earlier run had one of the same name and step).
        made = {name: order for order, name in enumerate(self._pinned)}
        ours = sorted(
            (made.get(name, -1), counter, step, name)
            for name, step, stays, counter in self._core.pins()
            if stays and _stem(name) == self._stem
        )
        for *_, name in ours[: -self._keep]:
            self._core.unpin(name)
            self._pinned.pop(name, None)

    # --- The rest --------------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        """Numbers to log: waits, bytes, how far ahead."""
        return self._core.stats()

    def report(
        self,
        step: int,
        loss: Mapping[str, tuple[float, float]] | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Says what came of a step: kept with the stream, and served as metrics. Never waits for the store.

        Args:
            step: one that was handed out.
            loss: by source, (sum, count) of this rank's own share of the step: readers add the ranks up.
            metrics: anything else, by name.

        A second report of the same step replaces the names that it has. Numbers of torch and numpy are fine (one that is on a
        device is waited for), and so are NaN and infinity. It is written within seconds, and when the loader is closed.
        """
        number = self._reported(step)
        if loss is None and metrics is None:
            raise InvalidArgument("report(): what came of the step? Give loss={source: (sum, count)} or metrics={name: number}")
        losses = [_loss_of(source, value) for source, value in _items("loss", loss)]
        others = [(_text("metric", name), _number(f"the metric {name!r}", value)) for name, value in _items("metrics", metrics)]
        if self._reports_as is not self._mesh:
            mesh = {axis: getattr(self._mesh, axis) for axis in _mesh.AXES}
            self._core.report_as(self._role, mesh, self._report_every)
            self._reports_as = self._mesh
        if losses or others:
            self._core.report(number, losses, others)

    def _reported(self, step: int) -> int:
        try:
            number = operator.index(step)
        except TypeError:
            raise InvalidArgument(f"report(): a step is a whole number, step.number; not {step!r:.100}") from None
        cursor = self._core.cursor
        if not 0 <= number < max(self._furthest, cursor):
            raise InvalidArgument(f"report(): step {number} was not handed out (the next one is {cursor})")
        return number

    def close(self) -> None:
        """Ends everything at once, when the last reports are written. What was handed out stays."""
        _open.discard(self)
        if self._producers is not None:
            self._producers.stop()
        self._core.close(2.0, 5.0)
        self._metrics = None

    @property
    def metrics_url(self) -> str | None:
        """Where this process serves its metrics, if it does."""
        return None if self._metrics is None else self._metrics.url

    @property
    def closed(self) -> bool:
        return self._core.closed

    def __getitem__(self, index: Any) -> NoReturn:  # noqa: ANN401
        # torch takes what is no IterableDataset for a map from numbers to samples.
        raise TypeError(
            "steps come in their order: `for step in loader`; loader.step(n) looks at one without moving on. A loader is not for "
            "a torch DataLoader: use it in its place; or, where a framework insists, DataLoader(headrace.torch.Loader(…), "
            "batch_size=None)"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Loader cannot be sent to another process: it would hand out every step there once more. Use no worker processes "
            "around it (num_workers=0): it reads ahead by itself"
        )

    def __repr__(self) -> str:
        return f"<headrace.Loader {self._info['uri']} {self._mesh}>"


class _Steps:
    """An iteration over a loader's steps."""

    def __init__(self, loader: Loader, which: int) -> None:
        self._loader = loader
        self._which = which

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> Step:
        return self._loader._next(self._which)


def _serve_metrics(wish: str | None) -> _core.MetricsServer | None:
    of_environment = wish is None
    wish = os.environ.get("HEADRACE_METRICS", "") if wish is None else wish
    if not wish:
        return None
    rank = os.environ.get("LOCAL_RANK", "")
    try:
        server = _core.serve_metrics(wish, int(rank) if rank.isdecimal() else 0)
    except Error as error:
        if not of_environment:
            raise
        # The variable is for all processes of a machine; none shall die of it.
        _log.warning("HEADRACE_METRICS: going on without serving metrics: %s", error)
        return None
    _log.info("metrics are served at %s", server.url)
    return server


def _refuse_in_workers() -> None:
    """Workers of a DataLoader that iterate for themselves hand out every step once each, and nobody has their state."""
    data = sys.modules.get("torch.utils.data")
    worker = None if data is None else data.get_worker_info()
    if worker is not None:
        raise InvalidArgument(
            f"a loader is iterated in worker {worker.id} of {worker.num_workers} of a torch DataLoader: each of them would hand "
            "out every step once more, and none has a state that could be saved. Use num_workers=0 and iterate the loader in the "
            "process that trains: it reads ahead on its own threads. (loader.step(n) may be used in workers.)"
        )


def _step_number(number: Any) -> int:  # noqa: ANN401
    try:
        step = operator.index(number)
    except TypeError:
        raise InvalidArgument(f"a step is a whole number, counted from 0; not {number!r:.100}") from None
    if step < 0:
        raise InvalidArgument(f"step {step}: counted from 0")
    return step


def _seconds(name: str, value: Any) -> float:  # noqa: ANN401
    try:
        seconds = _core.parse_duration(value) if isinstance(value, str) else float(value)
    except (InvalidArgument, TypeError, ValueError):
        seconds = -1.0
    if not seconds >= 0 or isinstance(value, bool):
        raise InvalidArgument(f'{name}= is a time: seconds, at least 0, or a text like "90s" or "5m"; not {value!r:.100}')
    return seconds


def _bytes(name: str, value: Any) -> int:  # noqa: ANN401
    try:
        size = _core.parse_size(value) if isinstance(value, str) else int(value)
    except (InvalidArgument, TypeError, ValueError, OverflowError):
        size = -1
    if not 0 <= size < 2**63 or isinstance(value, bool):
        raise InvalidArgument(f'{name}= is a size: bytes, or a text like "512MB" or "2GiB"; not {value!r:.100}')
    return size


def _items(what: str, given: Mapping[str, Any] | None) -> Any:  # noqa: ANN401
    if given is None:
        return ()
    try:
        return given.items()
    except AttributeError:
        raise InvalidArgument(f"report(): {what}= is a dict by name, not {given!r:.100}") from None


def _text(what: str, name: Any) -> str:  # noqa: ANN401
    if not isinstance(name, str):
        raise InvalidArgument(f"report(): the name of a {what} is a text, not {name!r:.100}")
    return name


def _number(what: str, value: Any) -> float:  # noqa: ANN401
    try:
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise InvalidArgument(f"report(): {what} is one number, not {value!r:.100}") from None


def _loss_of(source: Any, value: Any) -> tuple[str, float, float]:  # noqa: ANN401
    name = _text("source", source)
    try:
        total, count = value
    except (TypeError, ValueError):
        raise InvalidArgument(f"report(): the loss of {name!r} is a pair (sum, count), not {value!r:.100}") from None
    return name, _number(f"the sum of the loss of {name!r}", total), _number(f"the count of the loss of {name!r}", count)


def _names(mixture: dict[str, Any]) -> tuple[str, ...]:
    return tuple(source["name"] for source in mixture.get("sources", ()))


def _stem(name: str) -> str:
    return re.sub(r"\d+$", "", name)


@atexit.register
def _close_all() -> None:
    for loader in list(_open):
        if loader._producers is not None:
            loader._producers.stop()
        loader._core.close(0.5, 5.0)
    _open.clear()
