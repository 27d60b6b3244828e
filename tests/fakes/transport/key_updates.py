"""KeyUpdate records of a TLS 1.3 client, which Python's own would not send (RFC 8446 §4.6.3)."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

_HANDSHAKE = b"\x16"
_HEADER = b"\x17\x03\x03\x00\x16"
_TAKE_NEW_KEYS = b"\x18\x00\x00\x01\x00"
_TAKE_NEW_KEYS_AND_SEND_NEW_KEYS = b"\x18\x00\x00\x01\x01"


class KeyUpdates:
    """Of a connection with TLS_AES_256_GCM_SHA384 on which the client has sent nothing yet."""

    def __init__(self, key_log: Path) -> None:
        (line,) = [
            line
            for line in key_log.read_text().splitlines()
            if line.startswith("CLIENT_TRAFFIC_SECRET_0 ")
        ]
        self._secret = bytes.fromhex(line.split()[2])

    def next(self, *, asks: bool) -> bytes:
        """Another record; `asks` for new keys of the server as well."""
        message = _TAKE_NEW_KEYS_AND_SEND_NEW_KEYS if asks else _TAKE_NEW_KEYS
        cipher, nonce = AESGCM(self._derived("key", 32)), self._derived("iv", 12)
        self._secret = self._derived("traffic upd", 48)
        return _HEADER + cipher.encrypt(nonce, message + _HANDSHAKE, _HEADER)

    def _derived(self, label: str, length: int) -> bytes:
        name = b"tls13 " + label.encode()
        info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
        return HKDFExpand(hashes.SHA384(), length, info).derive(self._secret)
