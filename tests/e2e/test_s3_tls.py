"""S3 over TLS, against a real server with a certificate of our own making."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import servers
from calls import CREDENTIALS, Bucket, Headrace
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Certificate:
    """Signed by itself: also the authority that vouches for it."""

    certificate: Path
    key: Path


def make_certificate(folder: Path, address: str) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headrace test")])
    now = datetime.datetime.now(datetime.UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(alternative, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    made = Certificate(folder / f"{address}.pem", folder / f"{address}.key")
    made.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture(scope="module")
def endpoint(own: Certificate) -> Iterator[str]:
    command = servers.command_of("versitygw")
    if command is None:
        pytest.skip("versitygw IS NOT INSTALLED: TLS is not tested")
    where = command.index("posix")
    with_tls = [*command[:where], "--cert", str(own.certificate), "--key", str(own.key), *command[where:]]
    server = servers.Server("versitygw", with_tls, authority=own.certificate)
    try:
        server.wait_and_create_bucket()
        yield server.endpoint
    finally:
        server.stop()


def uri(endpoint: str) -> str:
    return f"s3://{servers.BUCKET}/tls?endpoint={endpoint}"


def test_a_trusted_server_is_safe_over_tls(headrace: Headrace, endpoint: str, own: Certificate) -> None:
    done = headrace("probe", uri(endpoint), "--json", env={**CREDENTIALS, "AWS_CA_BUNDLE": str(own.certificate)})
    assert done.status == 0, done.err
    assert done.json["safe"] is True


def test_the_authority_may_be_named_on_the_uri(headrace: Headrace, endpoint: str, own: Certificate) -> None:
    done = headrace("probe", f"{uri(endpoint)}&ca_file={own.certificate}", env=CREDENTIALS)
    assert done.status == 0, done.err


def test_a_server_that_nobody_vouches_for_is_refused(headrace: Headrace, endpoint: str) -> None:
    done = headrace("probe", uri(endpoint), env=CREDENTIALS)
    assert done.status == 1
    assert "is not trusted" in done.err
    assert "AWS_CA_BUNDLE" in done.err


def test_another_authority_does_not_vouch(headrace: Headrace, endpoint: str, tmp_path: Path) -> None:
    other = make_certificate(tmp_path, "127.0.0.1")
    done = headrace("probe", uri(endpoint), env={**CREDENTIALS, "AWS_CA_BUNDLE": str(other.certificate)})
    assert done.status == 1
    assert "is not trusted" in done.err


def test_a_certificate_of_another_host_is_refused(headrace: Headrace, endpoint: str, own: Certificate) -> None:
    by_name = endpoint.replace("127.0.0.1", "localhost")  # the certificate has the address only
    done = headrace("probe", uri(by_name), env={**CREDENTIALS, "AWS_CA_BUNDLE": str(own.certificate)})
    assert done.status == 1
    assert "is not trusted" in done.err


def test_certificates_that_cannot_be_read(headrace: Headrace, endpoint: str, tmp_path: Path) -> None:
    missing = headrace("probe", uri(endpoint), env={**CREDENTIALS, "AWS_CA_BUNDLE": str(tmp_path / "none.pem")})
    assert missing.status == 1
    assert "none.pem" in missing.err
    (tmp_path / "junk.pem").write_text("no certificate\n")
    junk = headrace("probe", uri(endpoint), env={**CREDENTIALS, "AWS_CA_BUNDLE": str(tmp_path / "junk.pem")})
    assert junk.status == 1
    assert "junk.pem" in junk.err


@pytest.mark.slow
def test_https_where_plain_http_is_spoken(headrace: Headrace, reference: Bucket) -> None:
    done = headrace("probe", uri(reference.endpoint.replace("http:", "https:")), env=CREDENTIALS)
    assert done.status == 1
    assert "no TLS with" in done.err


@pytest.mark.slow
def test_plain_http_where_https_is_spoken(headrace: Headrace, endpoint: str) -> None:
    done = headrace("probe", uri(endpoint.replace("https:", "http:")), env=CREDENTIALS)
    assert done.status == 1
    assert "127.0.0.1" in done.err
