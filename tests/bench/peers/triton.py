"""NVIDIA's Triton server, CPU only, with a model in Python (nvidia-pytriton), and `tritonclient` over gRPC.

The model returns 200 bytes and looks at the last byte of the frame. `request_id` says which frame a result is of.
"""

import os
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

import numpy as np
import tritonclient.grpc as triton

from tests.bench.peers.base import (
    HOST,
    REPLY_BYTES,
    check,
    free_port,
    in_turn,
    patiently,
    per_second,
    result,
    since_us,
)

_MODEL = "frames"


@contextmanager
def serving() -> Iterator[int]:
    from pytriton.model_config import ModelConfig, Tensor  # noqa: PLC0415 - the client needs none of it
    from pytriton.triton import Triton, TritonConfig  # noqa: PLC0415

    # the server is a program of its own that looks for libpython
    libraries = [str(sysconfig.get_config_var("LIBDIR")), os.environ.get("LD_LIBRARY_PATH", "")]
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))

    def infer(asked: list[Any]) -> list[dict[str, Any]]:
        return [
            {"RESULT": np.frombuffer(result(0, each["FRAME"][-1:].tobytes()), np.uint8)} for each in asked
        ]

    port = free_port()
    config = TritonConfig(
        grpc_address=HOST, grpc_port=port, http_address=HOST, http_port=free_port(), allow_metrics=False
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        Triton(config=config, workspace=f"{folder}/pytriton") as server,
    ):
        server.bind(
            model_name=_MODEL,
            infer_func=infer,
            inputs=[Tensor(name="FRAME", dtype=np.uint8, shape=(-1,))],
            outputs=[Tensor(name="RESULT", dtype=np.uint8, shape=(REPLY_BYTES,))],
            config=ModelConfig(batching=False),
        )
        server.run()
        yield port


class Client:
    """`infer` for one frame, `async_infer` for several."""

    def __init__(self, port: int) -> None:
        self._client = triton.InferenceServerClient(f"{HOST}:{port}")
        self._results: SimpleQueue[tuple[Any, Any]] = SimpleQueue()
        self._seq = 0
        patiently(lambda: self._call(b"1"), within_s=60.0)

    def closed(self, body: bytes, *, frames: int) -> list[float]:
        return in_turn(self._call, body, frames)

    def flow(self, body: bytes, *, frames: int, window: int) -> float:
        begun_ns = time.perf_counter_ns()
        wanted: set[int] = set()
        for number in range(frames + window):
            if number >= window:
                answer, error = self._results.get(timeout=30.0)
                if error is not None:
                    raise RuntimeError(str(error))
                seq = int(answer.get_response().id)
                wanted.remove(seq)
                check(answer.as_numpy("RESULT").tobytes(), 0, body)
            if number < frames:
                self._seq += 1
                wanted.add(self._seq)
                self._client.async_infer(
                    _MODEL, self._inputs(body), callback=self._answered, request_id=str(self._seq)
                )
        return per_second(frames, begun_ns)

    def close(self) -> None:
        self._client.close()

    def _answered(self, result: Any, error: Any) -> None:
        self._results.put((result, error))

    def _inputs(self, body: bytes) -> list[Any]:
        frame = triton.InferInput("FRAME", [len(body)], "UINT8")
        frame.set_data_from_numpy(np.frombuffer(body, np.uint8))
        return [frame]

    def _call(self, body: bytes) -> float:
        self._seq += 1
        begun_ns = time.perf_counter_ns()
        answer = self._client.infer(_MODEL, self._inputs(body), request_id=str(self._seq))
        reply = answer.as_numpy("RESULT").tobytes()
        took_us = since_us(begun_ns)
        if answer.get_response().id != str(self._seq):
            raise RuntimeError(f"frame {self._seq} was answered by something else")
        check(reply, 0, body)
        return took_us
