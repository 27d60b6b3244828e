from __future__ import annotations

import datetime as dt
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from epp.diagnosis.checks.port import judge_certificate
from epp.diagnosis.doctor_findings import Verdict
from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.port_look import PortLook, Speaks

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
OK, WARNING, FAULT = Verdict.OK, Verdict.WARNING, Verdict.FAULT


def look(*names: str, issuer: str = "ca", days: int = 365, host: str = "10.0.0.1") -> PortLook:
    """A port with a certificate for these names that began a month ago."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "epp")]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(NOW - dt.timedelta(days=30))
        .not_valid_after(NOW + dt.timedelta(days=days))
    )
    if names:
        entries = [_entry(name) for name in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(entries), critical=False)
    return PortLook(
        address=HostPort(host, 9002),
        speaks=Speaks.TLS,
        alpn="h2",
        certificate=builder.sign(key, hashes.SHA256()),
    )


def _entry(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@pytest.mark.parametrize(
    ("port", "verdicts", "words"),
    [
        (look("10.0.0.1"), [OK], "for 10.0.0.1, until 2027-06-01"),
        (look("epp.models.svc", host="epp.models.svc"), [OK], "for epp.models.svc"),
        (look("*.models.svc", host="EPP.models.svc"), [OK], "for *.models.svc"),
        (look("other", host="127.0.0.1"), [OK], "for other"),
        (look("other", host="localhost"), [OK], "for other"),
        (look("other"), [OK, WARNING], "is for other, not for 10.0.0.1"),
        (look(), [OK, WARNING], "for no name"),
        (look("10.0.0.1", days=7), [WARNING], "expires on 2026-06-08"),
        (look("10.0.0.1", days=-1), [FAULT], "expired on 2026-05-31"),
        (look(issuer="epp"), [OK], "self-signed"),
        (look(issuer="epp", days=-1), [WARNING], "expired on"),
    ],
)
def test_certificates_are_judged(port: PortLook, verdicts: list[Verdict], words: str) -> None:
    findings = list(judge_certificate(port, NOW))

    assert [each.verdict for each in findings] == verdicts
    assert words in findings[-1].found


def test_a_certificate_of_the_future_hints_at_the_clock() -> None:
    (found,) = judge_certificate(look("10.0.0.1"), NOW - dt.timedelta(days=40))

    assert (found.verdict, found.advice) == (FAULT, "is a clock wrong?")
