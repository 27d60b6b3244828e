"""Does the picker's ext_proc port speak what gateways speak to it?"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Iterable, Iterator

from cryptography import x509

from epp.diagnosis.doctor_case import Case
from epp.diagnosis.doctor_findings import Finding, fault, listing, ok, skipped, warning
from epp.diagnosis.doctor_options import HostPort
from epp.diagnosis.port_look import PortLook, Speaks, Unreachable, look_at_port

PORT, CERTIFICATE = "picker-port", "picker-certificate"
_SOON = dt.timedelta(days=14)


async def look_at_picker_port(case: Case) -> Iterable[Finding]:
    """Reachable; TLS or plaintext as meant; HTTP/2; and what the certificate says."""
    address = case.picker
    if address is None:
        advice = "name it by --grpc-address, such as one that kubectl port-forward opens"
        return [skipped(PORT, "the picker can't be reached from here, or is not known", advice)]
    try:
        case.port = look = await look_at_port(address)
    except Unreachable as why:
        return [
            fault(
                PORT,
                f"{address}: {why}",
                "is the picker running, and is that its --grpc-port? In a cluster: does the"
                " Service have that port, and does a NetworkPolicy let gateways in?",
            )
        ]
    mismatch = _mismatch(look, meant_tls=case.options.secure_serving)
    if mismatch is not None:
        case.is_mute = look.speaks not in (Speaks.TLS, Speaks.PLAINTEXT)
        return [mismatch]
    if look.speaks is Speaks.PLAINTEXT:
        return [ok(PORT, f"{address} speaks plaintext HTTP/2")]
    if look.alpn != "h2":
        case.is_mute = True
        text = f"{address} speaks TLS, but does not agree on HTTP/2 (ALPN {look.alpn})"
        return [fault(PORT, text, "is a proxy in front of it? It must let ALPN h2 through")]
    return [
        ok(PORT, f"{address} speaks {look.tls_version}, ALPN h2"),
        *judge_certificate(look, dt.datetime.now(dt.UTC)),
    ]


def _mismatch(look: PortLook, *, meant_tls: bool) -> Finding | None:
    if look.speaks is Speaks.HTTP1:
        text = f"{look.address} speaks HTTP/1.1: it is no ext_proc port"
        return fault(PORT, text, "name the --grpc-port (9002); 9090 is metrics, 9091 admin")
    if look.speaks is Speaks.UNKNOWN:
        text = f"{look.address} speaks neither TLS nor plaintext HTTP/2"
        return fault(PORT, text, "is that the ext_proc port of a picker?")
    if look.speaks is Speaks.NOTHING:
        text = f"{look.address} takes connections, and says nothing"
        return fault(
            PORT, text, "does the picker hang (its CPU, its log), or what stands before it?"
        )
    meant = Speaks.TLS if meant_tls else Speaks.PLAINTEXT
    if look.speaks is meant:
        return None
    if meant_tls:
        advice = (
            "gateways that use TLS, as most do, fail with it: start the picker without"
            " --secure-serving=false, or set gateways to plaintext and say --secure-serving=false"
            " here, too"
        )
    else:
        advice = (
            "gateways that use plaintext fail with it: start the picker with"
            " --secure-serving=false, or set gateways to TLS and leave that flag out here, too"
        )
    text = f"{look.address} speaks {look.speaks}, but {meant} is meant"
    return fault(PORT, text, advice)


def judge_certificate(look: PortLook, now: dt.datetime) -> Iterator[Finding]:
    """Whose it is, until when, and for whom; most gateways verify nothing of it."""
    certificate = look.certificate
    if certificate is None:
        yield skipped(CERTIFICATE, "the certificate can't be read")
        return
    is_own = certificate.issuer == certificate.subject
    names = _names(certificate)
    until = certificate.not_valid_after_utc
    judge = warning if is_own else fault
    if until < now:
        text, advice = f"expired on {until:%Y-%m-%d}", "renew it, and see --enable-cert-reload"
        yield judge(CERTIFICATE, text, advice)
    elif certificate.not_valid_before_utc > now:
        text = f"not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        yield judge(CERTIFICATE, text, "is a clock wrong?")
    elif until - now < _SOON:
        yield warning(CERTIFICATE, f"expires on {until:%Y-%m-%d}", "renew it")
    elif is_own:
        text = f"self-signed, until {until:%Y-%m-%d}"
        yield ok(CERTIFICATE, text, "gateways must not verify it; --cert-path brings one of yours")
    else:
        yield ok(CERTIFICATE, f"for {listing(names) or 'no name'}, until {until:%Y-%m-%d}")
    if not is_own and not _covers(names, look.address):
        text = f"is for {listing(names) or 'no name'}, not for {look.address.host}"
        yield warning(CERTIFICATE, text, "gateways that verify names will refuse it")


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    addresses = names.get_values_for_type(x509.IPAddress)
    return [*names.get_values_for_type(x509.DNSName), *map(str, addresses)]


def _covers(names: Iterable[str], address: HostPort) -> bool:
    host = address.host.lower()
    parent = host.partition(".")[2]
    return any(name.lower() in (host, f"*.{parent}") for name in names) or _is_loopback(host)


def _is_loopback(host: str) -> bool:
    # Forwarded ports have names that no certificate has.
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
