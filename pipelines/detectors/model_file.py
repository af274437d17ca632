"""A model file as bytes, and what a file is that holds no model: people put the wrong one in place.

A half-finished download, a Git LFS pointer, an error page, weights of another framework: each is named.
"""

from pathlib import Path

from pipelines.errors import ConfigError

_STARTS = (
    (b"PK\x03\x04", "a zip archive (PyTorch weights are one: export them to ONNX first)"),
    (b"\x1f\x8b", "a gzip archive: unpack it"),
    (b"BZh", "a bzip2 archive: unpack it"),
    (b"\xfd7zXZ", "an xz archive: unpack it"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive: unpack it"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"\x89PNG", "a PNG picture"),
    (b"GIF8", "a GIF picture"),
    (b"\x89HDF", "an HDF5 file (Keras weights are one: export them to ONNX first)"),
    (b"\x80\x02", "a Python pickle (old PyTorch weights are one: export them to ONNX first)"),
    (b"GGUF", "a GGUF model, no ONNX"),
    (b"%PDF", "a PDF document"),
)
_FLATBUFFERS = {
    b"TFL3": "a TensorFlow Lite model, no ONNX",
    b"ORTM": "a model in ORT format: give the ONNX file it was made from",
}
_TEXT_BYTES = 512


def read_model(path: Path) -> bytes:
    """The file's bytes. Raises ConfigError when it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"no model file at {path}; put it there, or mend `model`") from error
    except OSError as error:
        raise ConfigError(
            f"cannot read the model file {path}: {error.strerror}; `model` names a file this user can read"
        ) from error


def describe(data: bytes) -> str:
    """What a file is, for the person who expected a model in it."""
    start = data[:_TEXT_BYTES].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    count = f"{len(data)} bytes"
    if not data:
        return "the file is empty"
    if start.startswith(b"version https://git-lfs"):
        return f"a Git LFS pointer of {count}, not the file it points to; run: git lfs pull"
    if start.startswith(b"<?xml") and b"<net" in start:
        return f"an OpenVINO description of {count}: give the ONNX file it was made from"
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return f"a web page of {count}: the download gave an error page instead of the file"
    for magic, words in _STARTS:
        if data.startswith(magic):
            return f"{words}; {count}"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return f"a WebP picture; {count}"
    if words := _FLATBUFFERS.get(data[4:8], ""):
        return f"{words}; {count}"
    if _is_text(data[:_TEXT_BYTES]):
        return f"a text of {count} that begins {data[:40].decode('utf-8', 'replace').splitlines()[0]!r}"
    return f"{count} that begin with {data[:8].hex(' ')}"


def _is_text(start: bytes) -> bool:
    return all(byte >= 0x20 or byte in b"\t\r\n" for byte in start) and start.isascii()
