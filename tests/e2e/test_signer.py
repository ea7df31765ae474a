"""Our SigV4 against botocore's, on requests that nobody thought of."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import random
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

REQUESTS = 1000
ROOT = Path(__file__).resolve().parent.parent.parent
# Everything that a key, a prefix or a continuation token may be made of.
ALPHABET = "abzAZ019-._~ =+%&?#*'()!@$,;:[]/\\\"<>{}|^`äßé日本ሴ🜁\u00a0"


def sign_tool() -> Path:
    """The program under test; HEADRACE_SIGN_TOOL says where it is if not in a build folder."""
    if named := os.environ.get("HEADRACE_SIGN_TOOL"):
        return Path(named)
    found = sorted(ROOT.glob("build/*/tests/sign_tool"), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.fail("sign_tool is not built: cmake -DHEADRACE_TESTS=ON, target sign_tool")
    return found[-1]


def text(rng: random.Random, most: int) -> str:
    return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, most)))


def make_request(rng: random.Random) -> dict[str, object]:
    body = rng.randbytes(rng.choice([0, 0, 1, 200]))
    payload = rng.choice([hashlib.sha256(body).hexdigest(), "UNSIGNED-PAYLOAD"])
    time = rng.randrange(1_000_000_000, 4_000_000_000)
    headers = [["host", rng.choice(["bucket.s3.eu-west-1.amazonaws.com", "127.0.0.1:9000", "localhost"])]]
    headers += [["x-amz-content-sha256", payload]]
    if rng.random() < 0.3:
        headers.append(["x-amz-security-token", rng.randbytes(40).hex()])
    if rng.random() < 0.3:
        headers.append(["X-Amz-S3Session-Token", rng.randbytes(40).hex()])
    if rng.random() < 0.5:
        headers.append([rng.choice(["Range", "range"]), f"bytes={rng.randrange(100)}-{rng.randrange(100, 9999)}"])
    if rng.random() < 0.3:
        headers.append(["If-None-Match", "*"])
    for _ in range(rng.randrange(3)):
        padding = " " * rng.randrange(4)
        headers.append([f"x-amz-meta-{rng.randrange(10**6)}", f"{padding}one{padding} two{padding}"])
    query = [[rng.choice(["uploads", "delete", "lifecycle"]), ""]] if rng.random() < 0.3 else []
    for number in range(rng.randrange(4)):
        query.append([f"{text(rng, 6)}{number}", text(rng, 20)])
    rng.shuffle(query)
    return {
        "method": rng.choice(["GET", "PUT", "POST", "DELETE", "HEAD"]),
        "path": quote("/" + text(rng, 60), safe="/-._~"),
        "query": query,
        "headers": headers,
        "payload_hash": payload,
        "region": rng.choice(["us-east-1", "eu-central-1"]),
        "service": rng.choice(["s3", "s3express"]),
        "key": "AKIA" + rng.randbytes(8).hex().upper(),
        "secret": rng.randbytes(20).hex() + "/+=",
        "time": time,
    }


def botocore_answer(request: dict[str, object], stamp: str) -> dict[str, str]:
    credentials = Credentials(request["key"], request["secret"])
    auth = S3SigV4Auth(credentials, request["service"], request["region"])
    headers = dict(request["headers"])
    query = "&".join(f"{quote(name, safe='-._~')}={quote(value, safe='-._~')}" for name, value in request["query"])
    url = f"https://{headers['host']}{request['path']}" + (f"?{query}" if query else "")
    ours = AWSRequest(method=request["method"], url=url, headers=headers)
    ours.context["timestamp"] = stamp
    canonical = auth.canonical_request(ours)
    to_sign = auth.string_to_sign(ours, canonical)
    return {"canonical_request": canonical, "string_to_sign": to_sign, "signature": auth.signature(to_sign, ours)}


def test_signs_like_botocore() -> None:
    rng = random.Random(20130524)
    requests = [make_request(rng) for _ in range(REQUESTS)]
    stamps = [datetime.datetime.fromtimestamp(r["time"], datetime.UTC).strftime("%Y%m%dT%H%M%SZ") for r in requests]
    for request, stamp in zip(requests, stamps, strict=True):
        request["headers"].append(["x-amz-date", stamp])
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    run = subprocess.run([sign_tool()], input=lines, capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == REQUESTS
    for request, stamp, answer in zip(requests, stamps, answers, strict=True):
        assert answer == botocore_answer(request, stamp), request
