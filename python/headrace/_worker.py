"""A worker process: runs what has to run in Python, on record batches that come and go through shared memory.

`headrace produce` starts it; nobody else has to. It speaks over one socket (SOCK_SEQPACKET, file descriptor 3 unless named as
the first argument): each message is a JSON object, with at most one descriptor of a memfd that holds an Arrow IPC stream of one
batch. JSON that is too long for a message comes in a memfd of its own, before the batch, and the message is "+".

The first message says what this worker is for, and is answered with fingerprints; then each request has one answer, in order:

    {"kind": "python" | "cost" | "tokenize" | "chat", ...}   ->  {"ok": true, "fingerprints": {...}, ...}
    {"op": "apply", "seed": 7}  + batch                      ->  {"ok": true, "bad": [[row, why], ...]}  + batch
    {"op": "decode", "tokens": [...]}                        ->  {"ok": true, "text": ...}

What fails is answered with {"ok": false, "error": one line, "traceback": text}; the worker goes on. It ends when the socket is
closed.

Descriptor 4, where there is one, gets the Python stacks of a crash, and of a hang when SIGUSR1 asks for them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import json
import mmap
import os
import re
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1
MESSAGE_BYTES = 64 * 1024
THIS_FILE = __file__
ADD_SEALS, SEALS = 1033, 2 | 4 | 8  # F_ADD_SEALS; F_SEAL_SHRINK, _GROW, _WRITE: not every Python has the names

Message = dict[str, Any]


class Mistake(Exception):
    """Something that the recipe or the user's code got wrong; its text says it all, without a traceback."""


def sha256_of(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# --- Python callables -----------------------------------------------------------------------------------------------------------


def import_call(call: str, folder: str) -> tuple[Callable[..., Any], dict[str, str]]:
    """The function `package.module:function`, and the hashes of its module and of what that imported from the recipe's folder."""
    module_name, _, function_name = call.partition(":")
    if not module_name or not function_name:
        raise Mistake(f"'{call}' names no function: write package.module:function")
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Where the import machinery was helps nobody; where a module that is there imports one that is not does.
        missing = error.name or module_name
        if missing == module_name or module_name.startswith(missing + "."):
            raise Mistake(
                f"there is no Python module {missing}: put {missing.split('.')[0]}.py beside the recipe ({folder}), or install "
                f"its package for {sys.executable}"
            ) from None
        raise
    function: Any = module
    for part in function_name.split("."):
        if not hasattr(function, part):
            raise Mistake(f"the module {module_name} ({getattr(module, '__file__', 'built in')}) has no '{function_name}'")
        function = getattr(function, part)
    if not callable(function):
        raise Mistake(f"{call} is a {type(function).__name__}, not a function")
    fingerprints = {}
    root = Path(folder).resolve()
    for name, loaded in sorted(sys.modules.items()):
        path = getattr(loaded, "__file__", None)
        if path is None or name == "__main__" or not path.endswith(".py"):
            continue
        if name == module_name or (root in Path(path).resolve().parents and "site-packages" not in path):
            fingerprints[f"python:{name}"] = sha256_of(path)
    return function, fingerprints


class PythonFunction:
    def __init__(self, request: Message) -> None:
        import numpy as np

        self.call = request["call"]
        self.numpy = np
        self.function, self.fingerprints = import_call(self.call, request["folder"])
        self.fingerprints["numpy"] = np.__version__.rsplit(".", 1)[0]

    def apply(self, request: Message, batch: pa.RecordBatch) -> tuple[Message, pa.RecordBatch | None]:
        import pyarrow as pa

        rng = self.numpy.random.Generator(self.numpy.random.PCG64(request["seed"]))
        result = self.function(batch, rng)
        if not isinstance(result, pa.RecordBatch):
            kind = f"{type(result).__module__}.{type(result).__qualname__}"
            hint = ""
            if isinstance(result, pa.Table):
                hint = ": combine its chunks and return to_batches()[0]"
            elif result is None:
                hint = " (nothing was returned)"
            raise Mistake(f"{self.call} returned a {kind}, not a pyarrow.RecordBatch{hint}")
        return {"bad": []}, result


class CostFunction:
    def __init__(self, request: Message) -> None:
        self.call = request["call"]
        self.function, self.fingerprints = import_call(self.call, request["folder"])

    def apply(self, request: Message, batch: pa.RecordBatch) -> tuple[Message, pa.RecordBatch | None]:
        import numpy as np
        import pyarrow as pa

        result = self.function(batch)
        if isinstance(result, (pa.Array, pa.ChunkedArray)):
            result = result.to_numpy(zero_copy_only=False)
        try:
            costs = np.asarray(result, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise Mistake(f"{self.call} returned a {type(result).__name__}, not one number for each row: {error}") from None
        if costs.shape != (batch.num_rows,):
            raise Mistake(
                f"{self.call} returned the shape {costs.shape} for {batch.num_rows} rows: it has to be one number for each row"
            )
        if not np.isfinite(costs).all() or (costs < 0).any():
            row = int(np.flatnonzero(~np.isfinite(costs) | (costs < 0))[0])
            raise Mistake(f"{self.call} returned {costs[row]} for row {row}: a cost is a finite number that is not negative")
        return {"bad": []}, pa.record_batch({"cost": pa.array(costs)})


# --- Tokens ---------------------------------------------------------------------------------------------------------------------


def lists_of(rows: list[list[int]], dtype: str, arrow_type: pa.DataType) -> pa.ListArray:
    """A list array of `rows`, by way of one flat numpy array: far quicker than from Python's lists of integers."""
    import numpy as np
    import pyarrow as pa

    offsets = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    if offsets[-1] >= 1 << 31:
        raise Mistake(f"{offsets[-1]} tokens in one batch are more than a list column can hold")
    flat = np.concatenate([np.asarray(row, dtype=dtype) for row in rows]) if rows else np.zeros(0, dtype=dtype)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(flat, type=arrow_type))


class TokenizerFile:
    """`tokenize` where the command was built without the Rust crate: the same library behind Python."""

    def __init__(self, request: Message) -> None:
        try:
            import tokenizers
        except ImportError:
            raise Mistake(
                "this build of headrace has no tokenizer of its own, and the Python package tokenizers is not installed for "
                f"{sys.executable}: `pip install tokenizers`, or build where cargo is installed"
            ) from None
        self.tokenizer = tokenizers.Tokenizer.from_file(request["file"])
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.version = tokenizers.__version__
        self.fingerprints = {"tokenizers": self.version}

    def about(self) -> Message:
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=True)
        return {"vocabulary": max(vocabulary.values(), default=-1) + 1}

    def apply(self, request: Message, batch: pa.RecordBatch) -> tuple[Message, pa.RecordBatch | None]:
        import pyarrow as pa

        texts, bad = [], []
        # The column is binary: what is no UTF-8 has to be found here, row by row.
        for row, value in enumerate(batch.column(0).to_pylist()):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError as error:
                bad.append([row, f"the text is not valid UTF-8 at byte {error.start}"])
        encode = getattr(self.tokenizer, "encode_batch_fast", self.tokenizer.encode_batch)
        first, last = [[request[side]] if request[side] >= 0 else [] for side in ("first", "last")]
        rows = [first + e.ids + last for e in encode(texts, add_special_tokens=False)]
        return {"bad": bad}, pa.record_batch({"tokens": lists_of(rows, "int32", pa.int32())})

    def decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=False)

    def ids(self, texts: list[str]) -> list[int]:
        found = [self.tokenizer.token_to_id(text) for text in texts]
        return [-1 if token is None else token for token in found]


def without_nulls(value: object) -> object:
    """A message as it was before Arrow gave every row the keys of all: null ones go, but for `content`, which may be null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None or key == "content"}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


class ChatTemplate:
    def __init__(self, request: Message) -> None:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        # A template needs none of them, and importing one takes longer than all else here.
        for library in ("USE_TORCH", "USE_TF", "USE_FLAX"):
            os.environ.setdefault(library, "0")
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        try:
            import tokenizers
            import transformers
        except ImportError as error:
            raise Mistake(
                f"`chat` needs the Python package transformers in {sys.executable}: `pip install transformers` ({error})"
            ) from None
        self.folder = request["tokenizer"]
        self.assistant = request["train_on"] == "assistant"
        if not Path(self.folder).is_dir():
            raise Mistake(f"there is no folder {self.folder}: `chat` wants the folder of a tokenizer with its chat template")
        try:
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(self.folder)
        except Exception as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise Mistake(
                f"transformers cannot load the tokenizer in {self.folder}: {said}. It needs a tokenizer.json and a "
                "tokenizer_config.json there, as `tokenizer.save_pretrained(folder)` writes them"
            ) from None
        try:
            template = self.tokenizer.get_chat_template()
        except ValueError:
            raise Mistake(
                f"the tokenizer in {self.folder} has no chat template: put a chat_template.jinja beside its tokenizer.json"
            ) from None
        if self.assistant and not re.search(r"\{%-?\s*generation\s*-?%\}", template):
            raise Mistake(
                f"the chat template in {self.folder} has no {{% generation %}} … {{% endgeneration %}} marks, so nobody "
                "can tell which tokens are the assistant's. Put them around what the assistant "
                "says in the template, or write `train_on: all`"
            )
        self.fingerprints = {
            f"chat_template:{Path(self.folder).name}": hashlib.sha256(template.encode()).hexdigest(),
            "tokenizers": tokenizers.__version__,
            "transformers": transformers.__version__,
        }
        for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
            path = Path(self.folder) / name
            if path.exists():
                self.fingerprints[f"tokenizer:{path.parent.name}/{name}"] = sha256_of(path)

    def about(self) -> Message:
        return {"vocabulary": max(self.tokenizer.get_vocab().values(), default=-1) + 1}

    def encode(self, conversations: list[Any]) -> list[tuple[list[int], list[int]]]:
        encoded = self.tokenizer.apply_chat_template(
            conversations, tokenize=True, return_dict=True, return_assistant_tokens_mask=self.assistant
        )
        tokens = encoded["input_ids"]
        masks = encoded["assistant_masks"] if self.assistant else [[1] * len(row) for row in tokens]
        return list(zip(tokens, masks, strict=True))

    def apply(self, request: Message, batch: pa.RecordBatch) -> tuple[Message, pa.RecordBatch | None]:
        import pyarrow as pa

        conversations, places, bad = [], [], []
        for row, value in enumerate(batch.column(0).to_pylist()):
            try:
                messages = json.loads(value) if isinstance(value, (str, bytes)) else without_nulls(value)
                if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
                    raise ValueError("they are not a list of messages, each with `role` and `content`")
            except ValueError as error:
                bad.append([row, f"the messages cannot be read: {error}"])
                continue
            conversations.append(messages)
            places.append(row)
        rows = []
        if conversations:
            try:
                rows = self.encode(conversations)
            except Exception:
                # Some row is not to the template's liking: each for itself, to know which.
                for place, messages in zip(places, conversations, strict=True):
                    try:
                        rows.extend(self.encode([messages]))
                    except Exception as error:
                        bad.append([place, f"the chat template refused it: {type(error).__name__}: {error}"])
        columns = {
            "tokens": lists_of([tokens for tokens, _ in rows], "int32", pa.int32()),
            "loss_mask": lists_of([mask for _, mask in rows], "uint8", pa.uint8()),
        }
        return {"bad": sorted(bad)}, pa.record_batch(columns)

    def decode(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, skip_special_tokens=False)


Worker = PythonFunction | CostFunction | TokenizerFile | ChatTemplate
KINDS: dict[str, Callable[[Message], Worker]] = {
    "python": PythonFunction,
    "cost": CostFunction,
    "tokenize": TokenizerFile,
    "chat": ChatTemplate,
}


# --- Messages -------------------------------------------------------------------------------------------------------------------


def read_batch(descriptor: int) -> pa.RecordBatch:
    import pyarrow as pa

    try:
        size = os.fstat(descriptor).st_size
        # The mapping lives as long as a buffer refers to it; the descriptor need not.
        mapped = mmap.mmap(descriptor, size, prot=mmap.PROT_READ, flags=mmap.MAP_SHARED)
    finally:
        os.close(descriptor)
    with pa.ipc.open_stream(pa.py_buffer(mapped)) as reader:
        return reader.read_next_batch()


def write_batch(batch: pa.RecordBatch) -> int:
    import pyarrow as pa

    descriptor = os.memfd_create("headrace-answer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        # By write, not through a mapping: memory that is not there is an error then, not a SIGBUS.
        with (
            os.fdopen(os.dup(descriptor), "wb") as file,
            pa.PythonFile(file, mode="w") as sink,
            pa.ipc.new_stream(sink, batch.schema) as writer,
        ):
            writer.write_batch(batch)
        # The reader maps it: nobody may pull the memory from under it.
        fcntl.fcntl(descriptor, ADD_SEALS, SEALS)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def failure_of(error: BaseException) -> Message:
    if isinstance(error, Mistake):
        return {"ok": False, "error": str(error), "traceback": "", "mistake": True}
    # From the user's code on: how the worker came there helps nobody.
    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename == THIS_FILE:
        first = first.tb_next
    text = "".join(traceback.format_exception(type(error), error, first or error.__traceback__))
    if len(text) > 16000:
        text = text[:6000] + "\n    …\n" + text[-9000:]
    line = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1:]
    return {"ok": False, "error": line[0][:4000] if line else type(error).__name__, "traceback": text, "mistake": False}


def memory_of(data: bytes) -> int:
    descriptor = os.memfd_create("headrace-message", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    return descriptor


def send(channel: socket.socket, message: Message, batch: pa.RecordBatch | None = None) -> None:
    descriptors = []
    try:
        encoded = json.dumps(message).encode()
        if len(encoded) > MESSAGE_BYTES:
            descriptors.append(memory_of(encoded))
            encoded = b"+"
        if batch is not None:
            descriptors.append(write_batch(batch))
        socket.send_fds(channel, [encoded], descriptors)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def receive(channel: socket.socket) -> tuple[Message, pa.RecordBatch | None] | None:
    """The next request; None at the end."""
    data, descriptors, _, _ = socket.recv_fds(channel, 2 * MESSAGE_BYTES, 2)
    if not data:
        return None
    if data == b"+":
        with os.fdopen(descriptors.pop(0), "rb") as file:
            file.seek(0)
            data = file.read()
    return json.loads(data), read_batch(descriptors[0]) if descriptors else None


def answer(worker: Worker, request: Message, batch: pa.RecordBatch) -> tuple[Message, pa.RecordBatch | None]:
    if request["op"] == "apply":
        message, result = worker.apply(request, batch)
        return {"ok": True, **message}, result
    if request["op"] == "decode":
        return {"ok": True, "text": worker.decode(request["tokens"])}, None
    if request["op"] == "ids":
        return {"ok": True, "ids": worker.ids(request["texts"])}, None
    raise Mistake(f"there is no operation {request['op']!r}")


def serve(channel: socket.socket) -> None:
    worker = None
    while (received := receive(channel)) is not None:
        request, batch = received
        del received
        try:
            if worker is None:
                if request.get("version") != VERSION:
                    raise Mistake(f"the worker speaks version {VERSION} and was asked in version {request.get('version')}")
                made = KINDS[request["kind"]](request)
                about = made.about() if hasattr(made, "about") else {}
                send(channel, {"ok": True, "fingerprints": made.fingerprints, **about})
                worker = made
            else:
                message, result = answer(worker, request, batch)
                send(channel, message, result)
                del result
        except BrokenPipeError:
            return
        except (Exception, SystemExit) as error:
            send(channel, failure_of(error))
        # Not kept until the next one comes: it is memory that the producer counts on.
        del batch


def main() -> None:
    descriptor = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    stacks = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    with contextlib.suppress(OSError, ValueError):
        import faulthandler

        os.fstat(stacks)
        faulthandler.enable(file=stacks)
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
    # Ctrl-C is the producer's to answer; it lets workers finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=descriptor)
    for private in (descriptor, stacks, 5):
        with contextlib.suppress(OSError):
            os.set_inheritable(private, False)
    # The folder of this file is no place to import from.
    if sys.path and Path(sys.path[0]) == Path(THIS_FILE).parent:
        del sys.path[0]
    # A user's own multiprocessing would load this as the main module of its processes, where there is nothing to be found.
    del sys.modules["__main__"].__file__
    serve(channel)


if __name__ == "__main__":
    main()
