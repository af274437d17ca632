"""A process that is watched from outside: its JSON lines are kept as they come, its ready line apart."""

import json
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Self

from tests.support.eventually import eventually

Line = dict[str, Any]


class Watched:
    """`popen` writes text to a pipe, and to `log` what goes wrong. `lines`: what it printed after its ready line;
    `read_s`: the monotonic moment each of them was read."""

    def __init__(self, popen: "subprocess.Popen[str]", log: Path) -> None:
        self.popen = popen
        self.log = log
        self.ready: Line = {}
        self.lines: list[Line] = []
        self.read_s: list[float] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for text in self.popen.stdout:
            try:
                line = json.loads(text)
            except ValueError:
                continue  # cut by a kill
            if line.get("ready"):
                self.ready = line
            else:
                self.read_s.append(time.monotonic())
                self.lines.append(line)

    def wait_ready(self, within_s: float = 30.0) -> Self:
        def ready() -> Line:
            code = self.popen.poll()
            assert code is None, f"ended with {code}:\n{self.log.read_text()[-3000:]}"
            return self.ready

        eventually(ready, within_s, f"ready line; log: {self.log}")
        return self

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """kill −9, and everything it had written is read."""
        self.popen.kill()
        self.end()

    def end(self) -> None:
        """By force if need be."""
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait(10)
        self._reader.join(10)
        if self.popen.stdout is not None:
            self.popen.stdout.close()
