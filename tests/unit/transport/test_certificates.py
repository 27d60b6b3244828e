from __future__ import annotations

import datetime
import ssl
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import example, given
from hypothesis import strategies as st

from epp.framework.errors import ConfigError
from epp.transport.certificates import CertificatePair, load_pair, self_signed_pair
from tests.fakes.certificates import certificate_of, new_pair, write_pair

NOW = datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)


def test_the_self_signed_certificate_is_that_of_the_reference_with_a_cheaper_key() -> None:
    certificate = certificate_of(self_signed_pair(NOW, hostname="epp-0"))

    (organisation,) = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert organisation.value == "Inference Ext"
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "epp-0"]
    assert certificate.not_valid_before_utc < NOW
    assert certificate.not_valid_after_utc - NOW >= datetime.timedelta(days=3650)


def test_a_pair_is_loaded_as_it_was_written(tmp_path: Path) -> None:
    pair = new_pair()
    write_pair(tmp_path, pair)

    assert load_pair(tmp_path) == pair


def test_a_machine_whose_name_no_certificate_takes_has_one_all_the_same() -> None:
    certificate = certificate_of(self_signed_pair(NOW, hostname="müller\udcff"))

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]


def test_the_key_is_not_shown_by_repr() -> None:
    assert "PRIVATE" not in repr(new_pair())


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    write_pair(tmp_path, new_pair())
    (tmp_path / name).unlink()

    with pytest.raises(ConfigError, match=rf"--cert-path: can't read .*{name}: No such file"):
        load_pair(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not PEM", b"-----BEGIN CERTIFICATE-----\nx\n"])
@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
def test_a_file_that_is_not_pem_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    write_pair(tmp_path, new_pair())
    (tmp_path / name).write_bytes(content)

    with pytest.raises(ConfigError, match=rf"--cert-path: .*{name} holds no PEM"):
        load_pair(tmp_path)


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    write_pair(tmp_path, new_pair())
    (tmp_path / "tls.key").write_bytes(new_pair().key)

    with pytest.raises(ConfigError, match=r"tls\.key is not that of .*tls\.crt"):
        load_pair(tmp_path)


PAIR = new_pair()
PUBLIC_KEY_KIND = bytes.fromhex("06072a8648ce3d0201")
VERSION_3 = bytes.fromhex("a003020102")


def certificate_bytes(chain: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(chain.decode())


def end_of(part: bytes) -> int:
    return certificate_bytes(PAIR.chain).index(part) + len(part) - 1


# A serial number below 0 is used, with a warning of the library's.
@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@given(place=st.integers(0, 10_000), bits=st.integers(1, 255))
@example(place=15, bits=128)
@example(place=end_of(PUBLIC_KEY_KIND), bits=64)
@example(place=end_of(VERSION_3), bits=80)
def test_a_certificate_that_was_spoilt_is_refused_or_used(place: int, bits: int) -> None:
    spoilt = bytearray(certificate_bytes(PAIR.chain))
    spoilt[place % len(spoilt)] ^= bits
    chain = ssl.DER_cert_to_PEM_cert(bytes(spoilt)).encode()

    with tempfile.TemporaryDirectory() as folder:
        write_pair(Path(folder), CertificatePair(chain=chain, key=PAIR.key))
        with suppress(ConfigError):
            assert load_pair(Path(folder)).chain == chain
