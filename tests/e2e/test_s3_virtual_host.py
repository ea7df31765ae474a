"""S3 with the bucket's name in the host, against a real server that looks for it there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import servers
from calls import CREDENTIALS, Bucket, Headrace


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    command = servers.command_of("versitygw")
    if command is None:
        pytest.skip("versitygw IS NOT INSTALLED: virtual hosts are not tested")
    where = command.index("posix")
    server = servers.Server("versitygw", [*command[:where], "--virtual-domain", "localhost:{port}", *command[where:]])
    try:
        server.wait_and_create_bucket()
        yield server.port
    finally:
        server.stop()


def uri(port: int) -> str:
    return f"s3://{servers.BUCKET}/virtual?endpoint=http://localhost:{port}&addressing=virtual"


def test_the_bucket_is_found_by_its_host(headrace: Headrace, port: int) -> None:
    done = headrace("probe", uri(port), "--json", env=CREDENTIALS)
    assert done.status == 0, done.err
    assert done.json["safe"] is True


def test_a_server_that_does_not_look_there_is_told_apart(headrace: Headrace, reference: Bucket) -> None:
    done = headrace("probe", uri(int(reference.endpoint.rsplit(":", 1)[1])), env=CREDENTIALS)
    assert done.status == 1
    assert "addressing" in done.err
