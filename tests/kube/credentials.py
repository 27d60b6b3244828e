"""What an API server and its clients need to trust each other: a CA, keys and tokens."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER = "https://kubernetes.default.svc"
ADMIN_TOKEN = "admin-token"
_CA = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-test-ca")])
_SERVER = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])


@dataclass(frozen=True)
class Credentials:
    """Files in one folder, written once for each control plane."""

    folder: Path

    @property
    def ca(self) -> Path:
        return self.folder / "ca.crt"

    @property
    def server_certificate(self) -> Path:
        return self.folder / "server.crt"

    @property
    def server_key(self) -> Path:
        return self.folder / "server.key"

    @property
    def service_account_key(self) -> Path:
        return self.folder / "sa.key"

    @property
    def tokens(self) -> Path:
        return self.folder / "tokens.csv"

    def write(self) -> None:
        """Make everything anew."""
        ca_key = ec.generate_private_key(ec.SECP256R1())
        server_key = _new_key(self.server_key)
        _new_key(self.service_account_key)
        _write_certificate(self.ca, _ca_builder(ca_key), ca_key)
        _write_certificate(self.server_certificate, _server_builder(server_key, ca_key), ca_key)
        self.tokens.write_text(f'{ADMIN_TOKEN},admin,admin,"system:masters"\n')

    def token_of(
        self, namespace: str, account: str, uid: str, *, expires_in_seconds: float = 3600
    ) -> str:
        """A token of a service account as the API server itself would sign it."""
        now = dt.datetime.now(dt.UTC).timestamp()
        claims = {
            "iss": ISSUER,
            "aud": [ISSUER],
            "sub": f"system:serviceaccount:{namespace}:{account}",
            "iat": int(now) - 7200,
            "nbf": int(now) - 7200,
            "exp": int(now + expires_in_seconds),
            "kubernetes.io": {
                "namespace": namespace,
                "serviceaccount": {"name": account, "uid": uid},
            },
        }
        signed = f"{_base64({'alg': 'ES256', 'typ': 'JWT'})}.{_base64(claims)}"
        key = serialization.load_pem_private_key(self.service_account_key.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        numbers = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_url_safe(b''.join(number.to_bytes(32) for number in numbers))}"


def kubeconfig(url: str, ca: Path, token: str) -> str:
    """A kubeconfig for one user."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {"name": "test", "cluster": {"server": url, "certificate-authority": str(ca)}}
            ],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        }
    )


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        # PKCS8 is refused for the keys of service accounts.
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    path.write_bytes(pem)
    return key


def _ca_builder(key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    return (
        _builder(_CA, key, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage("key_cert_sign", "crl_sign"), critical=True)
    )


def _server_builder(
    key: ec.EllipticCurvePrivateKey, ca_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    return (
        _builder(_SERVER, key, ca_key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(names, critical=False)
    )


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, ca_key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    ca_identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_CA)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        # Python 3.13 trusts no CA without key identifiers.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(ca_identifier, critical=False)
    )


def _key_usage(*allowed: str) -> x509.KeyUsage:
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{name: name in allowed for name in names})


def _write_certificate(
    path: Path, builder: x509.CertificateBuilder, ca_key: ec.EllipticCurvePrivateKey
) -> None:
    certificate = builder.sign(ca_key, hashes.SHA256())
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def _base64(value: object) -> str:
    return _url_safe(json.dumps(value).encode())


def _url_safe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
