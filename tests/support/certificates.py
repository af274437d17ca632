"""A certificate authority, and a certificate of it for `localhost`, made with openssl."""

import subprocess
from pathlib import Path


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """(ca, certificate, key) as PEM files in `folder`."""
    ca, ca_key = folder / "ca.pem", folder / "ca.key"
    cert, key, request = folder / "server.pem", folder / "server.key", folder / "server.csr"
    names = folder / "names"
    names.write_text("subjectAltName=DNS:localhost\n")
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def openssl(*words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=30)

    openssl(
        *("req", "-x509", *new, "-keyout", ca_key, "-out", ca, "-subj", "/CN=test ca", "-days", 2),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # without it Python 3.13 trusts no authority
    )
    openssl("req", *new, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    openssl(
        *("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial"),
        *("-out", cert, "-days", 2, "-extfile", names),
    )
    return ca, cert, key
