"""What the tests of the command share: calling it, and looking into a bucket behind its back."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import boto3
import pytest
import servers
from botocore.config import Config

ROOT = Path(__file__).resolve().parent.parent.parent
Json = dict[str, Any]


def binary() -> Path:
    """HEADRACE_BIN, or what `make build` left, or what a developer built."""
    if named := os.environ.get("HEADRACE_BIN"):
        return Path(named)
    for place in (ROOT / ".venv" / "bin" / "headrace", ROOT / "build" / "dev" / "src" / "cli" / "headrace"):
        if place.is_file():
            return place
    pytest.fail("the command is not built: `make build`")


@dataclass
class Done:
    """What became of one call of the command."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Json:
        """The one document on stdout; fails if there is anything else."""
        return json.loads(self.out)


class Headrace:
    """Calls the command with nothing of the caller's own AWS set-up."""

    def __init__(self, home: Path) -> None:
        self.binary = binary()
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "HEADRACE_PROGRESS": "0",
            # Nobody shall ask the metadata service of the machine that runs the tests.
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.environment[name] = os.environ[name]

    def __call__(
        self, *words: str | Path, env: dict[str, str] | None = None, timeout: float = 300, cwd: Path | None = None
    ) -> Done:
        process = subprocess.run(
            [self.binary, *map(str, words)],
            env={**self.environment, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
        )
        return Done(process.returncode, process.stdout, process.stderr)

    def start(
        self,
        *words: str | Path,
        env: dict[str, str] | None = None,
        stdout: int | IO[str] = subprocess.PIPE,
        stderr: int | IO[str] = subprocess.PIPE,
    ) -> subprocess.Popen[str]:
        """A call that goes on while the test does something to it."""
        return subprocess.Popen(
            [self.binary, *map(str, words)],
            env={**self.environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )


@dataclass
class Bucket:
    """A real server, one fresh prefix of its bucket, and a client of somebody else's making to look behind the scenes."""

    server: str
    endpoint: str
    prefix: str
    env: dict[str, str]
    client: Any

    @property
    def uri(self) -> str:
        return f"s3://{servers.BUCKET}/{self.prefix}?endpoint={self.endpoint}"

    def keys(self) -> list[str]:
        answer = self.client.list_objects_v2(Bucket=servers.BUCKET, Prefix=self.prefix + "/")
        return [entry["Key"] for entry in answer.get("Contents", [])]

    def uploads(self) -> list[str]:
        answer = self.client.list_multipart_uploads(Bucket=servers.BUCKET)
        return [entry["Key"] for entry in answer.get("Uploads", []) if entry["Key"].startswith(self.prefix + "/")]


CREDENTIALS = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY, "AWS_REGION": servers.REGION}


def make_bucket(name: str, endpoint: str) -> Bucket:
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=servers.REGION,
        aws_access_key_id=servers.ACCESS_KEY,
        aws_secret_access_key=servers.SECRET_KEY,
        config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
    )
    return Bucket(name, endpoint, f"e2e/{secrets.token_hex(6)}", dict(CREDENTIALS), client)


def as_nobody(words: list[str]) -> list[str]:
    """`words` run by somebody without rights; for a test that runs as root."""
    if os.geteuid() != 0:
        return words
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("MISSING PERMISSIONS ARE NOT TESTED: root without setpriv")
    return [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--", *words]
