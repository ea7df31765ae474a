"""What a user gets wrong: each one clear error that says what to do, exit 1, and nothing left behind."""

from __future__ import annotations

import http.server
import json
import re
import socket
import stat
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import servers
from calls import CREDENTIALS, Bucket, Done, Headrace, as_nobody, make_bucket

COMMANDS = ["probe", "bench"]
AT_ONCE = 60  # seconds: a blink, on the busiest machine too


def refused(done: Done, command: str, *says: str) -> None:
    """One error on stderr, in our words, with what was wrong and what to do."""
    assert done.status == 1, done
    assert done.err.startswith(f"headrace {command}: "), done.err
    assert sum(line.startswith("headrace ") for line in done.err.splitlines()) == 1, done.err
    for words in says:
        assert words in done.err, done.err
    assert "Traceback" not in done.err
    assert "terminate called" not in done.err


def attempts(done: Done) -> int:
    """How often it tried before it gave up: all the patience that requests have otherwise would be about a minute."""
    said = re.search(r"gave up after (\d+) attempts", done.err)
    return int(said[1]) if said else 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("gs://lake/a", ["s3://bucket?endpoint=https://storage.googleapis.com"]),
        ("az://lake/a", ["gateway"]),
        ("http://127.0.0.1:9000/lake", ["s3://bucket?endpoint=http://host:port"]),
        ("s4://lake/a", ["did you mean s3://?", "file:///path"]),
        ("s3://", ["bucket is missing", "s3://bucket/prefix"]),
        ("s3:///prefix", ["bucket is missing"]),
        ("s3:lake", ["write s3://"]),
        ("s3://host:9000/lake", ["endpoint=http://host:9000"]),
        ("s3://no", ["cannot be the name of a bucket"]),
        ("s3://la ke", ["cannot be the name of a bucket"]),
        ("s3://lake/a/../b", ['".."']),
        ("mem://x/../y", ['".."']),
        ("s3://lake?regoin=x", ['did you mean "region"?']),
        ("s3://lake?timeout=soon", ["timeout", "20s"]),
        ("file:///tmp?region=x", ["not for a folder"]),
        ("file://server/share", ["file:///path"]),
        ("~/data", ["home", "./~/data"]),
        ("", ["empty"]),
        ("s3://lake?endpoint=127.0.0.1:9000", ["https:// or http://"]),
        ("s3://lake?endpoint=http://192.0.2.1:9000", ["plain HTTP", "allow_http=true"]),
        ("s3://lake?endpoint=http://127.0.0.1:99999", ["65535"]),
        ("s3://lake?ca_file=/nowhere.pem", ["/nowhere.pem"]),
        ("s3://lake?region=not a region", ["eu-west-1"]),
    ],
)
def test_a_uri_that_cannot_be_right(headrace: Headrace, tmp_path: Path, command: str, uri: str, says: list[str]) -> None:
    refused(headrace(command, uri, cwd=tmp_path), command, *says)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("uri", ["s3://lake?access_key_id=AKIA&secret_access_key=hushhush", "s3://AKIA:hushhush@lake/a"])
def test_secrets_in_a_uri_are_refused_and_not_repeated(headrace: Headrace, command: str, uri: str) -> None:
    done = headrace(command, uri, "--json")
    refused(done, command, "logs")
    assert "hushhush" not in done.err + done.out


@pytest.mark.parametrize("command", COMMANDS)
def test_a_bucket_that_is_not_there(headrace: Headrace, bucket: Bucket, command: str) -> None:
    done = headrace(command, f"s3://nobody-made-this?endpoint={bucket.endpoint}", env=bucket.env)
    refused(done, command, "nobody-made-this", "Create the bucket first")
    assert "nobody-made-this" not in [entry["Name"] for entry in bucket.client.list_buckets()["Buckets"]]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "not-the-secret"}, "AWS_SECRET_ACCESS_KEY"),
        ({"AWS_ACCESS_KEY_ID": "NOBODYKNOWSTHIS"}, "AWS_ACCESS_KEY_ID"),
    ],
)
def test_wrong_credentials(headrace: Headrace, reference: Bucket, command: str, wrong: dict[str, str], says: str) -> None:
    done = headrace(command, reference.uri, env={**reference.env, **wrong})
    refused(done, command, says)
    assert "not-the-secret" not in done.err
    assert reference.keys() == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_credentials_at_all(headrace: Headrace, reference: Bucket, command: str) -> None:
    done = headrace(command, reference.uri, env={"AWS_REGION": servers.REGION}, timeout=AT_ONCE)
    refused(done, command, "credentials", "AWS_ACCESS_KEY_ID", "unsigned")


@pytest.mark.parametrize("command", COMMANDS)
def test_half_of_the_credentials(headrace: Headrace, reference: Bucket, command: str) -> None:
    done = headrace(command, reference.uri, env={"AWS_ACCESS_KEY_ID": "AKIA", "AWS_REGION": servers.REGION})
    refused(done, command, "AWS_SECRET_ACCESS_KEY")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_region(headrace: Headrace, reference: Bucket, command: str) -> None:
    done = headrace(command, reference.uri + "&region=eu-north-7", env=reference.env)
    refused(done, command, "region", "AWS_REGION")


READER = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "reader-secret", "AWS_REGION": servers.REGION}


@pytest.fixture(scope="module")
def shared_bucket() -> Iterator[Bucket]:
    """A server with a second user, `reader`, who may do nothing yet."""
    command = servers.command_of("versitygw")
    if command is None:
        pytest.skip("versitygw IS NOT INSTALLED: permissions on S3 are not tested")
    where = command.index("posix")
    server = servers.Server("versitygw", [*command[:where], "--iam-dir", "{data}/../", *command[where:]])
    try:
        server.wait_and_create_bucket()
        admin = ["admin", "-a", servers.ACCESS_KEY, "-s", servers.SECRET_KEY, "--er", server.endpoint]
        new_user = ["create-user", "-a", "reader", "-s", "reader-secret", "-r", "user"]
        subprocess.run([command[0], *admin, *new_user], check=True, capture_output=True)
        yield make_bucket("versitygw", server.endpoint)
    finally:
        server.stop()


@pytest.mark.parametrize("command", COMMANDS)
def test_no_permission_at_all(headrace: Headrace, shared_bucket: Bucket, command: str) -> None:
    shared_bucket.client.delete_bucket_policy(Bucket=servers.BUCKET)
    done = headrace(command, shared_bucket.uri, env=READER)
    refused(done, command, "AccessDenied", "policies")


@pytest.mark.parametrize("command", COMMANDS)
def test_permission_to_read_only(headrace: Headrace, shared_bucket: Bucket, command: str) -> None:
    rights = {
        "Effect": "Allow",
        "Principal": {"AWS": ["reader"]},
        "Action": ["s3:ListBucket", "s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{servers.BUCKET}", f"arn:aws:s3:::{servers.BUCKET}/*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [rights]})
    shared_bucket.client.put_bucket_policy(Bucket=servers.BUCKET, Policy=policy)
    done = headrace(command, shared_bucket.uri, env=READER)
    refused(done, command, "AccessDenied", "policies")
    assert shared_bucket.keys() == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_profile_that_is_not_there(headrace: Headrace, command: str) -> None:
    done = headrace(command, "s3://lake?profile=nobody&endpoint=http://127.0.0.1:1")
    refused(done, command, "nobody", "profile")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_host_that_does_not_exist(headrace: Headrace, command: str) -> None:
    # Where no name server can be reached, how long a look-up takes is the resolver's own affair.
    env = {**CREDENTIALS, "RES_OPTIONS": "timeout:1 attempts:1"}
    done = headrace(command, "s3://lake?endpoint=https://nobody.invalid", env=env, timeout=AT_ONCE)
    refused(done, command, "nobody.invalid")
    assert attempts(done) <= 6


@pytest.mark.parametrize("command", COMMANDS)
def test_a_port_where_nobody_listens(headrace: Headrace, command: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refuses
        port = taken.getsockname()[1]
        done = headrace(command, f"s3://lake?endpoint=http://127.0.0.1:{port}", env=CREDENTIALS, timeout=AT_ONCE)
        refused(done, command, f"cannot connect to 127.0.0.1:{port}", "endpoint")
        assert attempts(done) <= 6


class WebPage(http.server.BaseHTTPRequestHandler):
    """Something that speaks HTTP and is no object store."""

    protocol_version = "HTTP/1.1"
    status = 200

    def do_GET(self) -> None:
        page = b"<html><head><title>Welcome</title></head><body>It works!</body></html>"
        self.send_response(self.status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        pass


class NotFoundPage(WebPage):
    status = 404


@pytest.fixture(params=[WebPage, NotFoundPage])
def web_server(request: pytest.FixtureRequest) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_is_no_object_store(headrace: Headrace, web_server: str, command: str) -> None:
    done = headrace(command, f"s3://lake?endpoint={web_server}", env=CREDENTIALS, timeout=AT_ONCE)
    refused(done, command, "S3")
    assert "It works!" not in done.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_is_a_file(headrace: Headrace, tmp_path: Path, command: str) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    refused(headrace(command, file), command, str(file), "folder")
    assert file.read_text() == "mine"
    refused(headrace(command, file / "below"), command, str(file))
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk(headrace: Headrace, small_disk: Path, command: str) -> None:
    done = headrace(command, small_disk / "store")
    refused(done, command, "space")
    assert list(small_disk.iterdir()) == []


@pytest.fixture
def open_to_all() -> Iterator[Callable[[], Path]]:
    """Folders that anybody may reach, unlike pytest's own."""
    made: list[Path] = []

    def make() -> Path:
        path = Path(tempfile.mkdtemp(prefix="headrace-e2e-", dir="/tmp"))
        path.chmod(0o755)
        made.append(path)
        return path

    yield make
    for path in made:
        subprocess.run(["rm", "-rf", path], check=True)


def call_as_nobody(headrace: Headrace, *words: str) -> Done:
    process = subprocess.run(
        as_nobody([str(headrace.binary), *words]),
        env={**headrace.environment, "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "Permission denied" in process.stderr and "headrace" not in process.stderr.split(":")[0]:
        pytest.skip(f"MISSING PERMISSIONS ARE NOT TESTED: nobody cannot run {headrace.binary}")
    return Done(process.returncode, process.stdout, process.stderr)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", [".", "not/there/yet"])
def test_a_folder_that_may_not_be_written(headrace: Headrace, open_to_all: Callable[[], Path], command: str, place: str) -> None:
    folder = open_to_all()
    done = call_as_nobody(headrace, command, str(folder / place))
    refused(done, command, str(folder), "ermission")
    assert list(folder.iterdir()) == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize("command", COMMANDS)
def test_a_folder_that_may_not_even_be_read(headrace: Headrace, open_to_all: Callable[[], Path], command: str) -> None:
    folder = open_to_all()
    folder.chmod(0o700)
    refused(call_as_nobody(headrace, command, str(folder / "x")), command, str(folder), "ermission")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_system_that_is_read_only(headrace: Headrace, tmp_path: Path, command: str) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", tmp_path], capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("A READ-ONLY FILE SYSTEM IS NOT TESTED: mounting a tmpfs needs root")
    try:
        refused(headrace(command, tmp_path), command, str(tmp_path), "ead-only")
    finally:
        subprocess.run(["umount", tmp_path], check=True)
