"""An ONNX model ready to run on the CPU: the only module that knows onnxruntime.

A file is trusted only if it is what was expected; engine errors leave as this project's errors. A run can
be ended from another thread within milliseconds and leaves the session usable.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.detectors.base import Cancelled, CancelToken
from pipelines.detectors.onnx_shapes import free_shapes
from pipelines.errors import ConfigError, Fatal, Rejected

Tensor = NDArray[np.float32]

_ERRORS_ONLY = 3  # onnxruntime's severities: 2 warns about every unused weight of an exported model


class OnnxModel:
    """One session of the model in `path`, with batch, height and width of its picture inputs free.

    `threads` work inside one run. Raises ConfigError when the file is missing, is not the one with `sha256`
    (64 hex digits), is no ONNX model, or when onnxruntime is not installed.
    """

    def __init__(self, path: Path, *, sha256: str | None = None, threads: int = 1) -> None:
        self._engine = _import_engine()
        data = _read(path)
        self.sha256 = hashlib.sha256(data).hexdigest()
        if sha256 is not None and self.sha256 != sha256.lower():
            raise ConfigError(
                f"{path} is not the expected model: {_describe(data)}\n"
                f"    found sha256:    {self.sha256}\n"
                f"    expected sha256: {sha256.lower()}"
            )
        try:
            model = free_shapes(data)
        except Rejected as error:
            raise ConfigError(f"{path} is no ONNX model ({error}): {_describe(data)}") from error
        options = self._engine.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _ERRORS_ONLY
        # Idle engine threads must not spin: the cores belong to capture, links and codecs too.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = self._engine.InferenceSession(
                model, sess_options=options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its error classes share no public base
            raise ConfigError(f"{path}: onnxruntime cannot load this model: {error}") from error
        self.inputs: tuple[str, ...] = tuple(i.name for i in self._session.get_inputs())
        self.outputs: tuple[str, ...] = tuple(o.name for o in self._session.get_outputs())

    def run(
        self,
        feed: Mapping[str, Tensor],
        outputs: Sequence[str],
        cancel: CancelToken | None = None,
    ) -> list[Tensor]:
        """The named outputs for `feed`. Blocks; the GIL is released while the engine computes.

        Raises Cancelled after `cancel`, Rejected for an input the model cannot take, Fatal when the engine
        broke.
        """
        options = self._engine.RunOptions()
        if cancel is not None:
            cancel.on_cancel(lambda: setattr(options, "terminate", True))
            if cancel.cancelled:
                raise Cancelled("cancelled before the run")
        try:
            results: list[Tensor] = self._session.run(list(outputs), dict(feed), options)
        except Exception as error:
            if cancel is not None and cancel.cancelled:
                raise Cancelled("cancelled during the run") from error
            if type(error).__name__ == "InvalidArgument" or isinstance(error, (ValueError, TypeError)):
                raise Rejected(f"the model does not take this input: {error}") from error
            raise Fatal(f"onnxruntime failed: {error}") from error
        if cancel is not None and cancel.cancelled:
            raise Cancelled("cancelled at the end of the run")
        return results


def _import_engine() -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra, and 0.1 s that commands without a model do not pay
    except ImportError as error:
        raise ConfigError(
            "ONNX models need onnxruntime, which is not installed: pip install 'nearfar[onnx]'"
        ) from error
    return onnxruntime


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ConfigError(f"no model file at {path}") from error
    except OSError as error:
        raise ConfigError(f"cannot read the model file {path}: {error.strerror}") from error


def _describe(data: bytes) -> str:
    """What a file is, for the person who expected a model in it."""
    start = data[:64].lstrip().lower()
    if not data:
        return "the file is empty"
    if start.startswith(b"version https://git-lfs"):
        return f"a Git LFS pointer of {len(data)} bytes, not the file it points to"
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return f"a web page of {len(data)} bytes"
    if data.startswith(b"PK\x03\x04"):
        return f"a zip archive of {len(data)} bytes"
    return f"{len(data)} bytes that begin with {data[:8].hex(' ')}"
