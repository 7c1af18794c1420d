"""Certificates for tests of TLS: an authority of one's own, and what it signs."""

from __future__ import annotations

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Signs certificates; all files are PEM in one directory."""

    def __init__(self, place: Path) -> None:
        place.mkdir()
        self.place, self.key = place, ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed("authority", self.key, authority=True)
        self.file = place / "ca.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder(
            issuer_name=_name("authority"),
            subject_name=_name(name),
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - datetime.timedelta(hours=1),
            not_valid_after=now + datetime.timedelta(hours=1),
        )
        limits = x509.BasicConstraints(ca=authority, path_length=None)
        return builder.add_extension(limits, critical=True).sign(self.key, hashes.SHA256())

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert_file, key_file = self.place / f"{name}-cert.pem", self.place / f"{name}-key.pem"
        cert_file.write_bytes(self._signed(name, key, authority=False).public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
        key_file.chmod(0o600)
        return cert_file, key_file
