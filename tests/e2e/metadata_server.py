"""A small stand-in on loopback for the places where AWS hands out credentials: EC2 (IMDSv2), containers, STS."""

from __future__ import annotations

import datetime
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

IMDS_TOKEN = "imds-token"
ROLE = "trainer"


class MetadataServer(ThreadingHTTPServer):
    """Numbers what it gives if `numbered`; otherwise everybody gets the same. Checks tokens and signatures."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lifetime = datetime.timedelta(hours=6)
        self.numbered = False
        self.failing = False
        self.container_token = "container-token"
        self.web_token = "web-token"
        self.secrets = {"AKIASOURCE": "source/secret"}  # of whoever may call AssumeRole
        self.seen: list[str] = []
        self.lock = threading.Lock()

    def __enter__(self) -> MetadataServer:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def issue(self, place: str) -> dict[str, str]:
        with self.lock:
            self.seen.append(place)
            number = len(self.seen) if self.numbered else 0
        end = datetime.datetime.now(datetime.timezone.utc) + self.lifetime
        return {
            "AccessKeyId": f"ASIA{place.upper()}{number}",
            "SecretAccessKey": f"{place}/secret+{number}",
            "Token": f"{place}-session-{number}==",
            "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MetadataServer

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, body: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self) -> None:
        if self.server.failing:
            return self.answer(503)
        if self.path != "/latest/api/token" or not self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
            return self.answer(400)
        return self.answer(200, IMDS_TOKEN)

    def do_GET(self) -> None:
        if self.server.failing:
            return self.answer(503)
        if self.path == "/container":
            if self.headers.get("Authorization") != self.server.container_token:
                return self.answer(403, json.dumps({"code": "AccessDenied", "message": "wrong token"}))
            return self.answer(200, json.dumps(self.server.issue("container")))
        if self.headers.get("X-aws-ec2-metadata-token") != IMDS_TOKEN:
            return self.answer(401)
        if self.path == "/latest/meta-data/iam/security-credentials/":
            return self.answer(200, ROLE)
        if self.path == f"/latest/meta-data/iam/security-credentials/{ROLE}":
            return self.answer(200, json.dumps({"Code": "Success", **self.server.issue("instance")}))
        return self.answer(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        action = form.get("Action", "")
        if self.server.failing:
            return self.answer(503)
        if action == "AssumeRole" and not self.signed_rightly(body):
            return self.refuse("SignatureDoesNotMatch")
        if action == "AssumeRoleWithWebIdentity" and form.get("WebIdentityToken") != self.server.web_token:
            return self.refuse("InvalidIdentityToken")
        if "role/" not in form.get("RoleArn", "") or not form.get("RoleSessionName") or form.get("Version") != "2011-06-15":
            return self.refuse("ValidationError")
        given = self.server.issue("assumed" if action == "AssumeRole" else "web")
        given["SessionToken"] = given.pop("Token")
        fields = "".join(f"<{name}>{value}</{name}>" for name, value in given.items())
        return self.answer(
            200,
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result>'
            f"<Credentials>{fields}</Credentials></{action}Result></{action}Response>",
        )

    def refuse(self, code: str) -> None:
        self.answer(
            403,
            '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
            f"<Code>{code}</Code><Message>this is not how it works</Message></Error></ErrorResponse>",
        )

    def signed_rightly(self, body: bytes) -> bool:
        words = dict(word.split("=", 1) for word in self.headers["Authorization"].removeprefix("AWS4-HMAC-SHA256 ").split(", "))
        key, _, region, service, _ = words["Credential"].split("/")
        if key not in self.server.secrets:
            return False
        headers = {name: self.headers[name] for name in words["SignedHeaders"].split(";")}
        request = AWSRequest(method="POST", url=self.server.url + urlsplit(self.path).path, headers=headers, data=body)
        request.context["timestamp"] = self.headers["X-Amz-Date"]
        auth = SigV4Auth(Credentials(key, self.server.secrets[key]), service, region)
        expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
        return expected == words["Signature"]
