"""An ONNX model ready to run on the CPU: the only module that knows onnxruntime.

A file is trusted only if it is what was expected; engine errors leave as this project's errors. A run can
be ended from another thread within milliseconds and leaves the session usable. Numbers go in and come out
as float32; a float16 model is fed and read through a cast.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.detectors.base import Cancelled, CancelToken
from pipelines.detectors.model_file import describe, read_model
from pipelines.detectors.onnx_shapes import free_shapes
from pipelines.detectors.signature import read_signature
from pipelines.errors import ConfigError, Fatal, NearfarError, Rejected

Tensor = NDArray[np.float32]

# onnxruntime's severities: 2 warns about every unused weight of an exported model.
_ERRORS_ONLY, _SILENT = 3, 4
_GREY = 114.0
MOST_PICTURES = 64
"""Of one run; more gain nothing on a CPU and only cost memory."""
_PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_FED = {"float32": np.float32, "float16": np.float16}


class OnnxModel:
    """One session of the model in `path`, with batch, height and width of its picture inputs free.

    `threads` work inside one run. Raises ConfigError when the file is missing, is not the one with `sha256`
    (64 hex digits), is no ONNX model, wants other numbers than floats, or when onnxruntime is not installed.
    `signature` is what the file declares.
    """

    def __init__(self, path: Path, *, sha256: str | None = None, threads: int = 1) -> None:
        self._engine = _import_engine()
        self.path = path
        data = read_model(path)
        self.sha256 = hashlib.sha256(data).hexdigest()
        if sha256 is not None and self.sha256 != sha256.lower():
            raise ConfigError(
                f"{path} is not the expected model: {describe(data)}\n"
                f"    found sha256:    {self.sha256}\n"
                f"    expected sha256: {sha256.lower()}\n"
                "  put the right file there, or write the sha256 of this one"
            )
        try:
            model = free_shapes(data)
            self.signature = read_signature(data)
        except Rejected as error:
            raise ConfigError(f"{path} is no ONNX model ({error}): {describe(data)}") from error
        wrong = [port for port in self.signature.inputs if port.element not in _FED]
        if wrong:
            raise ConfigError(
                f"{path} takes {wrong[0]}; only float32 and float16 inputs are fed: export it with float inputs "
                "(a quantised model keeps them when it is saved in QDQ form)"
            )
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
            raise ConfigError(self._load_words(str(error))) from error
        self.inputs: tuple[str, ...] = tuple(i.name for i in self._session.get_inputs())
        self.outputs: tuple[str, ...] = tuple(o.name for o in self._session.get_outputs())
        self._numbers = {port.name: _FED[port.element] for port in self.signature.inputs}

    def run(
        self,
        feed: Mapping[str, Tensor],
        outputs: Sequence[str],
        cancel: CancelToken | None = None,
        *,
        quiet: bool = False,
    ) -> list[Tensor]:
        """The named outputs for `feed`. Blocks; the GIL is released while the engine computes.

        Raises Cancelled after `cancel`, Rejected for an input the model cannot take, Fatal when the engine
        broke; `quiet`: the engine prints nothing about it.
        """
        options = self._engine.RunOptions()
        if quiet:
            options.log_severity_level = _SILENT
        if cancel is not None:
            cancel.on_cancel(lambda: setattr(options, "terminate", True))
            if cancel.cancelled:
                raise Cancelled("cancelled before the run")
        numbers = {
            name: value.astype(self._numbers.get(name, np.float32), copy=False)
            for name, value in feed.items()
        }
        try:
            results: list[Any] = self._session.run(list(outputs), numbers, options)
        except Exception as error:
            if cancel is not None and cancel.cancelled:
                raise Cancelled("cancelled during the run") from error
            if type(error).__name__ == "InvalidArgument" or isinstance(error, (ValueError, TypeError)):
                raise Rejected(f"the model does not take this input: {error}") from error
            raise Fatal(f"onnxruntime failed: {error}") from error
        if cancel is not None and cancel.cancelled:
            raise Cancelled("cancelled at the end of the run")
        return [np.asarray(result).astype(np.float32, copy=False) for result in results]

    def try_out(self, size: tuple[int, int], outputs: Sequence[str]) -> dict[str, Tensor]:
        """The named outputs for a grey picture of `size` (width_px, height_px).

        Raises ConfigError, naming the size the file is frozen at, when it does not run at this one.
        """
        width, height = size
        picture = np.full((1, 3, height, width), _GREY, np.float32)
        try:
            results = self.run({self.inputs[0]: picture}, outputs, quiet=True)
        except NearfarError as error:
            batch = (self.signature.inputs[0].dims or (None,))[0]
            if batch not in (None, 1):
                raise ConfigError(
                    f"{self.path} was exported for {batch} pictures at a time: export it for one, or with a dynamic batch"
                ) from error
            declared = self.signature.declared_size
            if declared in (None, size):
                raise ConfigError(
                    f"{self.path} does not run at {width}x{height}: {error}; choose another `input`"
                ) from error
            raise ConfigError(self.frozen_words(size)) from error
        return dict(zip(outputs, results, strict=True))

    @property
    def max_batch(self) -> int:
        """Pictures it takes in one run: 1 if the file fixes the first dimension of its input at that, else any
        number; a file that declares more than 1 and runs with 1 has only kept the shape of the example it was
        exported with."""
        return 1 if self.signature.one_at_a_time else MOST_PICTURES

    @property
    def batch_limit(self) -> str:
        """Why there are no more, in words."""
        if self.max_batch > 1:
            return f"{MOST_PICTURES} are the most"
        return f"{self.path} {self.signature.batch_words}"

    def frozen_words(self, size: tuple[int, int]) -> str:
        """For a file that only runs at the size it declares."""
        declared = self.signature.declared_size or size
        return (
            f"{self.path} was exported for {declared[0]}x{declared[1]} only and cannot run at {size[0]}x{size[1]}: "
            f"write input: {declared[0]}x{declared[1]}, or export it with dynamic height and width"
        )

    def _load_words(self, said: str) -> str:
        words = f"{self.path}: onnxruntime {self._engine.__version__} cannot load this model"
        lower = said.lower()
        if "opset" in lower or "ir version" in lower:
            words += (
                f": it is of opset {self.signature.opset}, IR version {self.signature.ir_version}, which may be too "
                "new: export it with a lower opset, or install a newer onnxruntime"
            )
        if "external" in lower:
            words += ": its weights are in a second file: save the model as one file"
        return f"{words}\n    the engine says: {_PREFIX.sub('', said).strip()}"


def _import_engine() -> Any:
    try:
        import onnxruntime  # noqa: PLC0415 - an extra, and 0.1 s that commands without a model do not pay
    except ImportError as error:
        raise ConfigError(
            "ONNX models need onnxruntime, which is not installed: pip install 'nearfar[onnx]'"
        ) from error
    return onnxruntime
