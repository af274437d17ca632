"""The demo's live terminal view: the link, who answers, how fast. Plain lines where there is no terminal."""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from nearfar.demo.phases import PHASES, Phase

MARKS = {"far": ("█", "green"), "near": ("▄", "yellow"), "missed": ("×", "red")}
STRIP = 300


class View:
    """`answer` and `phase` feed it; use as a context manager."""

    def __init__(self, console: Console, *, deadline_ms: float) -> None:
        self._console = console
        self._deadline_ms = deadline_ms
        self._strip: deque[str] = deque(maxlen=STRIP)
        self._recent_ms: deque[float] = deque(maxlen=50)
        self._by: Counter[str] = Counter()
        self._by_phase: Counter[str] = Counter()
        self._on_time = 0
        self._phase: Phase | None = None
        self._elapsed_s = 0.0
        self._live = Live(console=console, refresh_per_second=8) if console.is_terminal else None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.update(self._picture())
            self._live.stop()
        self._say_phase()

    def phase(self, phase: Phase, elapsed_s: float) -> None:
        self._say_phase()
        self._phase = phase
        self._by_phase.clear()
        self._elapsed_s = elapsed_s

    def _say_phase(self) -> None:
        if self._live is None and self._phase is not None:
            answers = ", ".join(f"{n} {by}" for by, n in sorted(self._by_phase.items())) or "no answers"
            self._console.print(
                f"  {self._phase.name:14} {self._phase.seconds:3.0f} s  {answers}", highlight=False
            )

    def answer(self, line: Mapping[str, Any], elapsed_s: float) -> None:
        by = str(line["answered_by"])
        self._by[by] += 1
        self._by_phase[by] += 1
        self._strip.append(by)
        self._recent_ms.append(float(line["latency_ms"]))
        self._on_time += bool(line["on_time"])
        self._elapsed_s = elapsed_s

    def refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._picture())

    def _picture(self) -> Panel:
        total_s = sum(p.seconds for p in PHASES)
        link = Text("link    ")
        for phase in PHASES:
            style = "bold green" if phase.good else "bold red"
            link.append(f" {phase.name} ", style=f"reverse {style}" if phase is self._phase else style)
        strip = Text("answers ")
        width = max(20, self._console.width - 16)
        for by in list(self._strip)[-width:]:
            mark, style = MARKS.get(by, ("?", "magenta"))
            strip.append(mark, style=style)
        table = Table.grid(padding=(0, 3))
        answered = sum(self._by.values())
        recent = sorted(self._recent_ms)
        p95 = f"{recent[int(len(recent) * 0.95) - 1]:.0f} ms" if recent else "–"
        table.add_row(
            Text(f"far {self._by['far']}", style="green"),
            Text(f"near {self._by['near']}", style="yellow"),
            Text(f"missed {self._by['missed']}", style="red"),
            f"on time {100 * self._on_time / answered:.1f} %" if answered else "on time –",
            f"latency p95 {p95} of {self._deadline_ms:.0f} ms",
            f"{self._elapsed_s:.0f} of {total_s:.0f} s",
        )
        return Panel(Group(link, strip, table), title="nearfar demo", border_style="cyan")
