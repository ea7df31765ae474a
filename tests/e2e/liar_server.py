#!/usr/bin/env python3
"""A small S3 server in memory that can lie, so that `headrace probe` can be tried with the real client in the loop.

    python tests/e2e/liar_server.py [--port P] [--lie two-creators] [--bucket headrace-test]

Prints its endpoint as the first line and serves until it is ended. Speaks as much of S3 as a store needs: objects, ranges,
`If-None-Match: *`, ListObjectsV2, deletes one by one and by the list, multipart uploads. Checks no signatures. Needs
nothing but the standard library. As a context manager: `with running("short-bytes") as server: server.endpoint`.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import random
import re
import socket
import sys
import threading
import time
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

LIES = {
    "none": "tells the truth",
    "two-creators": "looks whether the key is free, waits for others who look, then writes: creators at the same time all win",
    "told-twice": "tells every creator that it created; the first one's bytes stay",
    "ignore-condition": "replaces what is there, whatever If-None-Match says",
    "short-bytes": "leaves away the second half of every object it returns, and says that it is all",
    "flipped-bytes": "returns one wrong bit in every object",
    "lost-list-entries": "never lists one key in seven",
    "ignores-range": "returns the whole object, whatever was asked for",
    "stale-reads": "shows an object as it was before its last change to the first who look at it after that",
    "undead": "calls deletes done without deleting",
    # No lies: a store may do this, and callers have to cope.
    "lost-answers": "does what it was asked for and closes the connection without an answer, one time in eight",
    "200-with-error-body": "answers every other list, delete and completed upload with 200 and an error inside, and does nothing",
    "slow-down-storm": "asks for fewer requests (503 with Retry-After) in its first two seconds",
}
HARMLESS = ("none", "lost-answers", "200-with-error-body", "slow-down-storm")
STALE_READS = 3
STORM_SECONDS = 2.0


class Bucket:
    """The objects, and for each key what it held before its last change."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.objects: dict[str, bytes] = {}
        self.before: dict[str, bytes | None] = {}
        self.stale: dict[str, int] = {}  # how many more will see what was before
        self.looking: dict[str, int] = {}  # creators who found their key free
        self.looked = threading.Condition()
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.numbers = itertools.count(1)
        self.random = random.Random(1)
        self.began: float | None = None

    def change(self, key: str, body: bytes | None) -> None:
        self.before[key], self.stale[key] = self.objects.get(key), STALE_READS
        if body is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = body

    def create(self, key: str, body: bytes, lie: str) -> bool:
        """True if the caller shall be told that it created the object."""
        if lie == "two-creators":
            if key in self.objects:
                return False
            # In a race there is somebody else, however long it takes until his request has come; elsewhere there is nobody.
            with self.looked:
                self.looking[key] = self.looking.get(key, 0) + 1
                self.looked.notify_all()
                if "/race/" in key:
                    self.looked.wait_for(lambda: self.looking[key] > 1, timeout=60)
        with self.lock:
            taken = key in self.objects
            if not taken or lie in ("ignore-condition", "two-creators"):
                self.change(key, body)
                return True
            return lie == "told-twice"

    def read(self, key: str, lie: str) -> bytes | None:
        with self.lock:
            if lie == "stale-reads" and self.stale.get(key, 0) > 0:
                self.stale[key] -= 1
                return self.before[key]
            body = self.objects.get(key)
        if body and lie == "short-bytes":
            return body[: len(body) // 2]
        if body and lie == "flipped-bytes":
            at = len(body) // 2
            return body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        return body


def unchunk(body: bytes) -> bytes:
    """The content of an aws-chunked body: chunks with their size (and signature) in front, trailers behind."""
    content = b""
    while True:
        head, body = body.split(b"\r\n", 1)
        size = int(head.split(b";")[0], 16)
        if size == 0:
            return content
        content, body = content + body[:size], body[size + 2 :]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # an answer is one packet, and nobody waits for the other half of it
    server: LiarServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: ANN401
        pass

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        bucket = self.server.objects
        if self.server.lie == "lost-answers":
            with bucket.lock:
                lost = bucket.random.random() < 1 / 8
            if lost:
                with contextlib.suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                self.close_connection = True
                return
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)

    def refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        text = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code><Message>{code}</Message></Error>"
        self.answer(status, text.encode(), {"Content-Type": "application/xml", **(headers or {})})

    def serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = unchunk(body)
        url = urlsplit(self.path)
        query = dict(parse_qsl(url.query, keep_blank_values=True))
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        objects, lie = self.server.objects, self.server.lie
        if bucket != self.server.bucket:
            return self.refuse(404, "NoSuchBucket")
        if lie == "slow-down-storm":
            with objects.lock:
                objects.began = objects.began or time.monotonic()
            if time.monotonic() - objects.began < STORM_SECONDS:
                return self.refuse(503, "SlowDown", {"Retry-After": "1"})
        answers_in_a_body = (self.command == "GET" and not key) or (self.command == "POST" and "uploads" not in query)
        if lie == "200-with-error-body" and answers_in_a_body:
            with objects.lock:
                every_other = next(objects.numbers) % 2 == 1
            if every_other:
                return self.refuse(200, "InternalError")

        if self.command == "GET" and not key:
            return self.list(query)
        if self.command in ("GET", "HEAD"):
            return self.get(key)
        if self.command == "POST" and "delete" in query:
            return self.delete_many(body)
        if "uploads" in query or "uploadId" in query:
            return self.upload(key, query, body)
        if self.command == "PUT":
            return self.put(key, body)
        if self.command == "DELETE":
            with objects.lock:
                if lie != "undead":
                    objects.change(key, None)
            return self.answer(204)
        return self.refuse(405, "MethodNotAllowed")

    def put(self, key: str, body: bytes) -> None:
        objects, lie = self.server.objects, self.server.lie
        if self.headers.get("If-None-Match") == "*":
            if not objects.create(key, body, lie):
                return self.refuse(412, "PreconditionFailed")
        else:
            with objects.lock:
                objects.change(key, body)
        return self.answer(200, headers={"ETag": f'"{hashlib.md5(body).hexdigest()}"'})

    def get(self, key: str) -> None:
        lie = self.server.lie
        body = self.server.objects.read(key, lie)
        if body is None:
            return self.refuse(404, "NoSuchKey")
        headers = {"ETag": f'"{hashlib.md5(body).hexdigest()}"', "Accept-Ranges": "bytes"}
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range") or "")
        if asked is None or lie == "ignores-range":
            return self.answer(200, body, headers)
        first, last = asked.groups()
        if first:
            begin, end = int(first), min(int(last) + 1 if last else len(body), len(body))
        else:
            begin, end = max(0, len(body) - int(last)), len(body)
        if begin >= len(body):
            return self.refuse(416, "InvalidRange", {"Content-Range": f"bytes */{len(body)}"})
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(body)}"
        return self.answer(206, body[begin:end], headers)

    def list(self, query: dict[str, str]) -> None:
        prefix, limit = query.get("prefix", ""), int(query.get("max-keys", "1000"))
        behind = bytes.fromhex(query.get("continuation-token", "")).decode() or query.get("start-after", "")
        encode = (lambda text: quote(text, safe="/")) if query.get("encoding-type") == "url" else escape
        with self.server.objects.lock:
            found = sorted((k, len(v)) for k, v in self.server.objects.objects.items() if k.startswith(prefix) and k > behind)
        page, more = found[:limit], len(found) > limit
        rest = f"<NextContinuationToken>{page[-1][0].encode().hex()}</NextContinuationToken>" if more else ""
        if self.server.lie == "lost-list-entries":
            page = [(key, size) for key, size in page if zlib.crc32(key.encode()) % 7 != 0]
        entries = "".join(f"<Contents><Key>{encode(key)}</Key><Size>{size}</Size></Contents>" for key, size in page)
        text = (
            "<?xml version='1.0' encoding='UTF-8'?>"
            f"<ListBucketResult><Name>{self.server.bucket}</Name><Prefix>{encode(prefix)}</Prefix>"
            f"<MaxKeys>{limit}</MaxKeys><KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>{rest}{entries}"
            f"{'<EncodingType>url</EncodingType>' if query.get('encoding-type') == 'url' else ''}</ListBucketResult>"
        )
        self.answer(200, text.encode(), {"Content-Type": "application/xml"})

    def delete_many(self, body: bytes) -> None:
        keys = [key.text or "" for key in ET.fromstring(body).iter() if key.tag.rpartition("}")[2] == "Key"]
        with self.server.objects.lock:
            for key in keys:
                if self.server.lie != "undead":
                    self.server.objects.change(key, None)
        text = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(200, f"<DeleteResult>{text}</DeleteResult>".encode(), {"Content-Type": "application/xml"})

    def upload(self, key: str, query: dict[str, str], body: bytes) -> None:
        objects = self.server.objects
        if "uploads" in query:
            with objects.lock:
                name = str(next(objects.numbers))
                objects.uploads[name] = {}
            text = f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>"
            return self.answer(200, text.encode(), {"Content-Type": "application/xml"})
        parts = objects.uploads.get(query["uploadId"])
        if parts is None:
            return self.refuse(404, "NoSuchUpload")
        if self.command == "PUT":
            parts[int(query["partNumber"])] = body
            return self.answer(200, headers={"ETag": f'"{hashlib.md5(body).hexdigest()}"'})
        if self.command == "DELETE":
            objects.uploads.pop(query["uploadId"], None)
            return self.answer(204)
        whole = b"".join(parts[number] for number in sorted(parts))
        if self.headers.get("If-None-Match") == "*" and not objects.create(key, whole, self.server.lie):
            return self.refuse(412, "PreconditionFailed")
        if self.headers.get("If-None-Match") != "*":
            with objects.lock:
                objects.change(key, whole)
        objects.uploads.pop(query["uploadId"], None)
        text = f'<CompleteMultipartUploadResult><Key>{escape(key)}</Key><ETag>"x"</ETag></CompleteMultipartUploadResult>'
        return self.answer(200, text.encode(), {"Content-Type": "application/xml"})

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = serve  # noqa: N815


class LiarServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, lie: str = "none", port: int = 0, bucket: str = "headrace-test") -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.lie = lie
        self.bucket = bucket
        self.objects = Bucket()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """A client that goes away is none of our business."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def running(lie: str) -> Iterator[LiarServer]:
    server = LiarServer(lie)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--lie", choices=LIES, default="none", help="; ".join(f"{name}: {text}" for name, text in LIES.items()))
    parser.add_argument("--bucket", default="headrace-test")
    words = parser.parse_args()
    server = LiarServer(words.lie, words.port, words.bucket)
    print(server.endpoint, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
