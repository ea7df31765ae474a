"""Our search for credentials against botocore's in the same surroundings, and renewal when services fail."""

from __future__ import annotations

import datetime
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from metadata_server import MetadataServer

ROOT = Path(__file__).resolve().parent.parent.parent
CASES = int(os.environ.get("HEADRACE_TEST_CASES", "120"))
ROLE_ARN = "arn:aws:iam::123456789012:role/trainer"
PROCESS = {
    "Version": 1,
    "AccessKeyId": "AKIAPROCESS",
    "SecretAccessKey": "process/secret",
    "SessionToken": "process-token",
}


def credentials_tool() -> Path:
    """The program under test; HEADRACE_CREDENTIALS_TOOL says where it is if not in a build folder."""
    if named := os.environ.get("HEADRACE_CREDENTIALS_TOOL"):
        return Path(named)
    found = sorted(ROOT.glob("build/*/tests/credentials_tool"), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.fail("credentials_tool is not built: cmake -DHEADRACE_TESTS=ON, target credentials_tool")
    return found[-1]


class Tool:
    """A living `credentials_tool` in surroundings of its own."""

    def __init__(self, environment: dict[str, str], *arguments: str) -> None:
        self.process = subprocess.Popen(
            [credentials_tool(), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], **environment},
        )

    def say(self, word: str) -> None:
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def get(self) -> dict[str, str]:
        self.say("get")
        return json.loads(self.process.stdout.readline())

    def __enter__(self) -> Tool:
        return self

    def __exit__(self, *_: object) -> None:
        self.log = self.process.communicate()[1]
        assert self.process.returncode == 0


@pytest.fixture
def server() -> Iterator[MetadataServer]:
    with MetadataServer() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".aws").mkdir()
    (tmp_path / "web-token").write_text("web-token")
    (tmp_path / "container-token").write_text("container-token")
    (tmp_path / "keys").write_text(f"#!/bin/sh\necho '{json.dumps(PROCESS)}'\n")
    (tmp_path / "keys").chmod(0o755)
    return tmp_path


def found_by_us(environment: dict[str, str], profile: str | None) -> dict[str, str]:
    with Tool(environment, "--region", "eu-west-1", *(["--profile", profile] if profile else [])) as tool:
        return tool.get()


def found_by_botocore(
    environment: dict[str, str], profile: str | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str, str] | str:
    with monkeypatch.context() as patch:
        for name in list(os.environ):
            patch.delenv(name)
        for name, value in {"PATH": "/usr/bin:/bin", **environment}.items():
            patch.setenv(name, value)
        try:
            session = botocore.session.Session(profile=profile)
            session.set_config_variable("region", "eu-west-1")
            found = session.get_credentials()
            if found is None:
                return "none"
            frozen = found.get_frozen_credentials()
        except Exception as error:  # whatever it is: botocore does not take these surroundings
            return f"{type(error).__name__}: {error}"
        return frozen.access_key, frozen.secret_key, frozen.token or ""


def kinder(environment: dict[str, str], theirs: str, ours: dict[str, str]) -> bool:
    """Where we go on and botocore does not, on purpose."""
    if theirs.startswith(("ProfileNotFound", "ConfigParseError")):
        # The files do not matter to whoever does not need them, and `default` is what one gets without asking.
        return ours["origin"] == "environment" or "(default)" in theirs
    # The role of a profile together with the token of the environment is enough for a web identity.
    return "source_profile or credential_source" in theirs and "AWS_WEB_IDENTITY_TOKEN_FILE" in environment


def assert_same(environment: dict[str, str], profile: str | None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both find the same, or both nothing; says what it was."""
    theirs = found_by_botocore(environment, profile, monkeypatch)
    ours = found_by_us(environment, profile)
    files = {path.name: path.read_text().splitlines() for path in Path(environment["HOME"], ".aws").iterdir()}
    case = json.dumps({**environment, "profile": profile, **files, "botocore": theirs, "headrace": ours}, indent=1)
    if isinstance(theirs, str):
        assert "error" in ours or kinder(environment, theirs, ours), case
        return "error"
    assert (ours.get("access_key_id"), ours.get("secret_access_key"), ours.get("session_token")) == theirs, case
    return theirs[0]


def keys(name: str, token: bool = False) -> list[str]:
    lines = [f"aws_access_key_id = AKIA{name}", f"aws_secret_access_key = {name}/secret=+"]
    return [*lines, f"aws_session_token = {name}-token"] if token else lines


def make_case(rng: random.Random, home: Path, url: str) -> tuple[dict[str, str], str | None]:
    """Some of everything: each place is set up, or not, or half."""
    # botocore gives its metadata service one second, which a busy machine may need for itself.
    patience = {"AWS_METADATA_SERVICE_TIMEOUT": "60", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "3"}
    environment = {"HOME": str(home), "AWS_ENDPOINT_URL_STS": url, **patience}
    if rng.random() < 0.8:
        environment["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = url
    else:
        environment["AWS_EC2_METADATA_DISABLED"] = "true"
    if rng.random() < 0.3:
        environment["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = f"{url}/container"
        environment["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = str(home / "container-token")
    if rng.random() < 0.2:
        environment["AWS_ACCESS_KEY_ID"] = "AKIAENV"
        if rng.random() < 0.9:
            environment["AWS_SECRET_ACCESS_KEY"] = "env/secret"
        if rng.random() < 0.5:
            environment["AWS_SESSION_TOKEN"] = "env-token"
    if rng.random() < 0.2:
        environment["AWS_WEB_IDENTITY_TOKEN_FILE"] = str(home / "web-token")
        if rng.random() < 0.9:
            environment["AWS_ROLE_ARN"] = ROLE_ARN

    config: dict[str, list[str]] = {"profile source": [*keys("SOURCE")[:1], "aws_secret_access_key = source/secret"]}
    credentials: dict[str, list[str]] = {}
    for name in ["default", "dev"]:
        section = name if name == "default" else f"profile {name}"
        if rng.random() < 0.7:
            lines = config.setdefault(section, [])
            if rng.random() < 0.3:
                lines += keys(f"CONFIG{name.upper()}", rng.random() < 0.5)
            if rng.random() < 0.3:
                lines += [f"credential_process = {home / 'keys'} --some 'argument'"]
            if rng.random() < 0.25:
                lines += [
                    f"role_arn = {ROLE_ARN}",
                    "source_profile = source",
                    "  # a comment",
                    "external_id = external",
                ]
            elif rng.random() < 0.2:
                lines += [f"role_arn = {ROLE_ARN}", f"web_identity_token_file = {home / 'web-token'}"]
            elif rng.random() < 0.1:
                lines += [f"role_arn = {ROLE_ARN}"]
            rng.shuffle(lines)
        if rng.random() < 0.4:
            credentials[name] = keys(f"SHARED{name.upper()}", rng.random() < 0.5)[: 3 if rng.random() < 0.9 else 1]
    for path, sections in [("config", config), ("credentials", credentials)]:
        text = "\n".join("\n".join([f"[{name}]", *lines, ""]) for name, lines in sections.items())
        (home / ".aws" / path).write_text(text if rng.random() < 0.97 else text + "[default\n")
    if rng.random() < 0.3:
        environment["AWS_PROFILE"] = rng.choice(["dev", "default", "missing"])
    return environment, rng.choice([None, None, "dev", "default"])


@pytest.mark.slow
def test_finds_what_botocore_finds(server: MetadataServer, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(CASES)
    outcomes: dict[str, int] = {}
    for _ in range(CASES):
        environment, profile = make_case(rng, home, server.url)
        found = assert_same(environment, profile, monkeypatch)
        outcomes[found] = outcomes.get(found, 0) + 1
    places = {
        "AKIAENV",
        "ASIAINSTANCE0",
        "ASIACONTAINER0",
        "ASIAWEB0",
        "ASIAASSUMED0",
        "AKIAPROCESS",
        "AKIACONFIGDEV",
        "AKIASHAREDDEV",
        "error",
    }
    assert places <= set(outcomes), f"the cases are too much alike: {outcomes}"


def imds(server: MetadataServer, home: Path) -> dict[str, str]:
    return {"HOME": str(home), "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url}


def container(server: MetadataServer, home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/container",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(home / "container-token"),
    }


def web_identity(server: MetadataServer, home: Path) -> dict[str, str]:
    return {
        "HOME": str(home),
        "AWS_ENDPOINT_URL_STS": server.url,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(home / "web-token"),
        "AWS_ROLE_ARN": ROLE_ARN,
    }


@pytest.mark.slow
@pytest.mark.parametrize("surroundings", [imds, container, web_identity], ids=lambda place: place.__name__)
def test_renews_before_the_end(surroundings: object, server: MetadataServer, home: Path) -> None:
    server.numbered = True
    for lifetime in (4, 8, 16, 32):  # a second that a busy machine takes for itself matters less and less
        server.seen.clear()
        server.lifetime = datetime.timedelta(seconds=lifetime)
        with Tool(surroundings(server, home)) as tool:
            first = tool.get()
            assert first["access_key_id"].endswith("1"), first
            # Whoever holds a token that is replaced while we run must come back with the new one.
            server.container_token = server.web_token = f"next-token-{lifetime}"
            (home / "container-token").write_text(server.container_token)
            (home / "web-token").write_text(server.web_token)
            end = datetime.datetime.fromisoformat(first["expires"].replace("Z", "+00:00")).timestamp()
            while (now := tool.get()) == first:
                time.sleep(0.02)
            in_time = time.time() < end
        if in_time:
            break
    assert in_time
    assert now["access_key_id"].endswith("2"), now
    assert now["expires"] > first["expires"]


@pytest.mark.slow
def test_outlives_an_outage_while_the_old_ones_last(server: MetadataServer, home: Path) -> None:
    server.numbered = True
    server.lifetime = datetime.timedelta(seconds=6)
    with Tool({**imds(server, home), "HEADRACE_LOG": "warning"}) as tool:
        first = tool.get()
        end = datetime.datetime.fromisoformat(first["expires"].replace("Z", "+00:00")).timestamp()
        server.failing = True
        # An answer that came before the end was made before it.
        while True:
            found = tool.get()
            if time.time() > end - 0.3:
                break
            assert found == first
            time.sleep(0.02)
        time.sleep(max(0.0, end - time.time()) + 0.1)
        lost = tool.get()
        assert lost["code"] == "Unavailable"
        assert "answered 503" in lost["error"]
        server.failing = False
        until = time.monotonic() + 60
        while "access_key_id" not in (again := tool.get()):
            assert time.monotonic() < until, again
            time.sleep(0.05)
        assert again["access_key_id"] == "ASIAINSTANCE2"
    assert "cannot renew credentials yet" in tool.log
    assert "answered 503" in tool.log
    assert "secret" not in tool.log


def test_refused_ones_are_replaced(server: MetadataServer, home: Path) -> None:
    server.numbered = True
    with Tool(container(server, home)) as tool:
        assert tool.get()["access_key_id"] == "ASIACONTAINER1"
        assert tool.get()["access_key_id"] == "ASIACONTAINER1"
        tool.say("invalidate")
        assert tool.get()["access_key_id"] == "ASIACONTAINER2"


def test_a_machine_outside_aws_is_told_quickly(home: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # bound and not listening: refuses
        endpoint = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        start = time.monotonic()
        told = found_by_us({"HOME": str(home), "AWS_EC2_METADATA_SERVICE_ENDPOINT": endpoint}, None)
        assert time.monotonic() - start < 60
    assert told["code"] == "Denied"
    for place in ["options", "environment", "assumed role", "web identity", "profile", "container", "EC2 instance"]:
        assert f"\n  {place}: " in told["error"]
    assert "?unsigned=true" in told["error"]


def test_errors_do_not_show_secrets(server: MetadataServer, home: Path) -> None:
    (home / "web-token").write_text("stale-secret-token")
    told = found_by_us(web_identity(server, home), None)
    assert told["code"] == "Denied"
    assert "InvalidIdentityToken" in told["error"]
    (home / "container-token").write_text("stale-secret-token")
    refused = found_by_us(container(server, home), None)
    assert "wrong token" in refused["error"]
    assert "secret-token" not in told["error"] + refused["error"]


def test_takes_the_answers_of_another_sts(home: Path) -> None:
    if not (moto := os.environ.get("HEADRACE_TEST_MOTO")):
        pytest.skip("LEFT OUT: no moto_server is running (tests/servers.py starts one)")
    environment = {"HOME": str(home), "AWS_ENDPOINT_URL_STS": moto, "AWS_EC2_METADATA_DISABLED": "true"}
    (home / ".aws" / "config").write_text(
        f"[profile train]\nrole_arn = {ROLE_ARN}\nsource_profile = source\n[profile source]\n" + "\n".join(keys("SOURCE"))
    )
    token = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(home / "web-token"), "AWS_ROLE_ARN": ROLE_ARN}
    for found in [found_by_us(environment, "train"), found_by_us({**environment, **token}, None)]:
        assert found.get("access_key_id", "").startswith("ASIA"), found
        assert found["secret_access_key"]
        assert found["session_token"]
        assert ROLE_ARN in found["origin"]
        assert found["expires"] > datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
