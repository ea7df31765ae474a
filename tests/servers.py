#!/usr/bin/env python3
"""Real S3 servers for tests and benchmarks: started on free loopback ports, gone with the command that needed them.

    python tests/servers.py [--only versitygw,moto,minio] [--require versitygw] -- COMMAND...

COMMAND sees the servers that could be started as HEADRACE_TEST_VERSITYGW, HEADRACE_TEST_MOTO and HEADRACE_TEST_MINIO
(endpoint URLs, each with the empty bucket `headrace-test`), and AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION
for them. Its exit status is passed on. A server that is not installed is left out and said so; `--require` makes that
an error. Needs nothing but the standard library. As a context manager:

    with servers.running(only=["moto"]) as environment: ...
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import hashlib
import hmac
import http.client
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

BUCKET = "headrace-test"
REGION = "us-east-1"
ACCESS_KEY = "headrace-test-key"
SECRET_KEY = "headrace-test-secret"
NAMES = ("versitygw", "moto", "minio")
ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 180.0
START_ATTEMPTS = 5  # of a server whose port somebody else took between our look and its start


class NotStarted(RuntimeError):
    """A server that is installed did not come up."""


class Server:
    """One server process with its data folder; ends and leaves nothing behind with `stop`.

    With `authority`, a PEM file, it is one that speaks TLS, with a certificate that this authority vouches for.
    """

    def __init__(self, name: str, command: list[str], authority: Path | None = None) -> None:
        self.name = name
        self.folder = Path(tempfile.mkdtemp(prefix=f"headrace-{name}-"))
        (self.folder / "data").mkdir()
        self.command = command
        self.tls = ssl.create_default_context(cafile=str(authority)) if authority else None
        self._start()

    def _start(self) -> None:
        self.port = free_port()
        self.endpoint = f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"
        environment = dict(os.environ, MINIO_ROOT_USER=ACCESS_KEY, MINIO_ROOT_PASSWORD=SECRET_KEY)
        arguments = [part.format(port=self.port, data=self.folder / "data") for part in self.command]
        if setpriv := shutil.which("setpriv"):  # ends with us even if we are killed
            arguments = [setpriv, "--pdeathsig", "KILL", "--", *arguments]
        with (self.folder / "log").open("wb") as log:
            self.process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # a Ctrl-C is for the command; the server ends after it
            )

    def wait_and_create_bucket(self) -> None:
        """Returns once the server answers and the bucket is there; `port` and `endpoint` are final only then."""
        end = time.monotonic() + START_SECONDS
        last: object = "nothing yet"
        tries = 1
        while time.monotonic() < end:
            if self.process.poll() is not None:
                last = f"it ended with status {self.process.returncode}"
                if tries == START_ATTEMPTS:
                    break
                tries += 1
                self._start()
            try:
                status, body = signed_put(self.port, f"/{BUCKET}", self.tls)
            except (OSError, http.client.HTTPException) as error:
                last = error
                time.sleep(0.05)
                continue
            # An attempt that ran into its timeout may have made it.
            made = status == 200 or (status == 409 and b"BucketAlreadyOwnedByYou" in body)
            if made and self.process.poll() is None:
                return
            last = f"HTTP {status} {body!r}"
            time.sleep(0.2)
        tail = (self.folder / "log").read_text(errors="replace")[-2000:]
        raise NotStarted(f"{self.name} did not come up on port {self.port}: {last}\n{tail}")

    def stop(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def command_of(name: str) -> list[str] | None:
    """The command that starts a server, with {port} and {data} to be filled in; nothing if it is not installed."""
    if name == "moto":
        script = _find("moto_server")
        return [script, "-H", "127.0.0.1", "-p", "{port}"] if script else None
    program = _find(name)
    if program is None:
        return None
    if name == "versitygw":
        options = ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--region", REGION, "--keep-alive", "--quiet"]
        return [program, *options, "--port", "127.0.0.1:{port}", "posix", "{data}"]
    if name == "minio":
        return [program, "server", "--quiet", "--address", "127.0.0.1:{port}", "{data}"]
    raise ValueError(f"no server is called {name}: there are {', '.join(NAMES)}")


@contextlib.contextmanager
def running(only: Sequence[str] = NAMES, require: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """Servers for the time of the block; yields the environment that tests look for."""
    environment = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": REGION}
    with contextlib.ExitStack() as stack:
        started = []
        for name in dict.fromkeys([*only, *require]):
            command = command_of(name)
            if command is None:
                if name in require:
                    raise NotStarted(f"{name} is required and not installed (looked in .tools/bin, .venv/bin and PATH)")
                print(f"servers.py: *** {name} is not installed: WHAT NEEDS IT IS LEFT OUT ***", file=sys.stderr, flush=True)
                continue
            server = Server(name, command)
            stack.callback(server.stop)
            started.append(server)
        for server in started:
            server.wait_and_create_bucket()
            environment[f"HEADRACE_TEST_{server.name.upper()}"] = server.endpoint
        yield environment


def signed_put(port: int, path: str, tls: ssl.SSLContext | None = None) -> tuple[int, bytes]:
    """An empty PUT, signed with SigV4: enough to create a bucket, without any package."""
    host = f"127.0.0.1:{port}"
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    payload = hashlib.sha256(b"").hexdigest()
    headers = {"host": host, "x-amz-content-sha256": payload, "x-amz-date": now}
    names = ";".join(sorted(headers))
    canonical = "\n".join(["PUT", path, "", *(f"{k}:{v}" for k, v in sorted(headers.items())), "", names, payload])
    to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = b"AWS4" + SECRET_KEY.encode()
    for part in [*scope.split("/"), to_sign]:
        key = hmac.digest(key, part.encode(), "sha256")
    credential = f"Credential={ACCESS_KEY}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    headers["authorization"] = f"AWS4-HMAC-SHA256 {credential}"
    if tls:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=tls)
    else:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("PUT", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _find(program: str) -> str | None:
    for folder in (ROOT / ".tools" / "bin", ROOT / ".venv" / "bin", Path(sys.executable).parent):
        if os.access(folder / program, os.X_OK):
            return str(folder / program)
    return shutil.which(program)


def free_port(count: int = 1) -> int:
    """The first of `count` neighbouring ports that nobody has, where no outgoing connection takes one by chance."""
    try:
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except (OSError, ValueError):
        lowest = 32768
    for _ in range(1000):
        first = random.SystemRandom().randrange(10_000, max(lowest, 20_000) - count)
        with contextlib.ExitStack() as taken, contextlib.suppress(OSError):
            for port in range(first, first + count):
                # As a server binds it: what an ended connection left behind does not matter.
                probe = taken.enter_context(socket.socket())
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
            return first
    raise NotStarted("there are no free ports")


def _names(text: str) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in NAMES:
            raise argparse.ArgumentTypeError(f"no server is called {name!r}: there are {', '.join(NAMES)}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_names, default=list(NAMES), help="start these, separated by commas")
    parser.add_argument("--require", type=_names, default=[], help="these must be there")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND...")
    options = parser.parse_args()
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        parser.error("say what to run after --")

    child: subprocess.Popen[bytes] | None = None

    def pass_on(number: int, _frame: object) -> None:
        if child is None:
            raise SystemExit(128 + number)  # unwinds through `running`, which stops what it started
        child.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    try:
        with running(options.only, options.require) as environment:
            try:
                child = subprocess.Popen(command, env=dict(os.environ, **environment))
            except OSError as error:
                print(f"servers.py: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
                return 127
            status = child.wait()
    except NotStarted as error:
        print(f"servers.py: {error}", file=sys.stderr)
        return 1
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
