"""Files that say how a link behaves: four formats in, one `LinkTrace` out, a DataFileError for anything else.

mahimahi: a line per 1500-byte opportunity, its stamp in ms, rising, looped with the last stamp as period.
mbit: a line per second, the Mbit/s of that second, looped.
csv: a header naming time_s or time_ms, rate_mbit (or up_mbit) and any of rtt_ms, down_mbit, loss; looped.
schedule: netlab's JSON steps: delay_ms, jitter_ms, rate_mbit, queue_ms, queue_bytes, loss, burst, outage.
"""

import csv
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from nearfar.simulation.link.capacity import Capacity, Opportunities, Rates
from nearfar.simulation.link.netlab_schedule import read_schedule
from nearfar.simulation.link.trace import Direction, LinkTrace
from nearfar.simulation.steps import Steps
from nearfar.simulation.text_file import read_text
from pipelines.errors import DataFileError, Problem

DEFAULT_RTT_US = 30_000
DOWN_MBIT_PER_S = 40.0
LARGEST_PLAIN_MBIT = 1000
QUEUE_BYTES = 150_000
"""What a radio buffers where the file does not say."""
SECOND_US = 1_000_000
LARGEST = 1e12
"""Of the numbers in a trace, in any of their units: µs of it stay exact, sums of it finite."""


def read_trace(
    path: Path, *, fmt: str | None = None, rtt_us: int = DEFAULT_RTT_US, down: Path | None = None
) -> LinkTrace:
    """The link in `path`. `rtt_us` where the file says nothing of delay; `down`: a file for the way back, which
    carries 40 Mbit/s otherwise. `fmt` None = told from the content.

    Raises DataFileError with file and line for what cannot be read.
    """
    text = _text(path)
    told = fmt is None
    fmt = fmt or format_of(text, path)
    if fmt == "schedule":
        trace = read_schedule(text, path, rtt_us=rtt_us)
    elif fmt == "csv":
        trace = _from_csv(text, path, rtt_us=rtt_us)
    else:
        capacity = _capacity(text, path, fmt)
        trace = LinkTrace(
            name=path.stem,
            up=Direction(
                capacity=capacity,
                delay_us=Steps.constant(rtt_us // 2),
                queue_bytes=Steps.constant(QUEUE_BYTES),
            ),
            down=Direction(
                capacity=Rates.constant(DOWN_MBIT_PER_S), delay_us=Steps.constant(rtt_us - rtt_us // 2)
            ),
            described=f"{fmt}, round trip {rtt_us / 1000:g} ms",
            note=_note(text, path, fmt) if told else "",
        )
    if down is not None:
        back = _text(down)
        capacity = _capacity(back, down, format_of(back, down))
        trace = replace(trace, down=replace(trace.down, capacity=capacity))
    return trace


def format_of(text: str, path: Path) -> str:
    """`mahimahi`, `mbit`, `csv` or `schedule`, told from the content: whole numbers that never fall are mahimahi's stamps."""
    stripped = text.lstrip()
    if stripped[:1] in ("[", "{"):
        return "schedule"
    first = next((line for line in text.splitlines() if line.strip()), "")
    if "," in first and any(c.isalpha() for c in first):
        return "csv"
    numbers = _numbers(text, path, "Mbit/s")
    whole = all(word.isdecimal() for word in text.split())
    rising = all(b >= a for a, b in pairwise(numbers))
    return "mahimahi" if whole and rising and numbers and numbers[-1] > 0 else "mbit"


def _note(text: str, path: Path, fmt: str) -> str:
    """A sentence where what was told from the content could as well be the other format: whole numbers that never fall
    and are no larger than a rate may be."""
    if fmt != "mahimahi" or max(_numbers(text, path, "stamps in ms")) > LARGEST_PLAIN_MBIT:
        return ""
    return f"{path}: taken for mahimahi stamps in ms; if these are Mbit/s, say so with --format mbit"


def _text(path: Path) -> str:
    text = read_text(path, what="trace")
    if not text.strip():
        raise DataFileError(Problem("is empty; a trace says what the link carries when", file=str(path)))
    return text


def _capacity(text: str, path: Path, fmt: str) -> Capacity:
    """The rate of one direction from a file of plain numbers."""
    try:
        if fmt == "mahimahi":
            stamps = _numbers(text, path, "stamps in ms")
            if any(b < a for a, b in pairwise(stamps)):
                raise DataFileError(Problem("the stamps of a mahimahi trace never fall", file=str(path)))
            return Opportunities([round(stamp * 1000) for stamp in stamps])
        if fmt == "mbit":
            rates = _numbers(text, path, "Mbit/s")
            times_us = [i * SECOND_US for i in range(len(rates))]
            return Rates(times_us, [rate / 8 for rate in rates], period_us=len(rates) * SECOND_US)
    except ValueError as error:
        raise DataFileError(Problem(f"carries nothing: {error}", file=str(path))) from error
    raise DataFileError(
        Problem(f"is {fmt}; one direction is a file of mahimahi stamps or of Mbit/s", file=str(path))
    )


def _numbers(text: str, path: Path, what: str) -> list[float]:
    out = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        value = _number(line.strip())
        if value is None or value < 0:
            raise DataFileError(
                Problem(
                    f"`{line.strip()[:40]}` is not one number of at most {LARGEST:g} ({what}); a trace is one of "
                    "mahimahi stamps, a Mbit/s per second, CSV with a header, or a schedule of JSON steps",
                    file=str(path),
                    line=number,
                )
            )
        out.append(value)
    return out


def _number(word: str) -> float | None:
    """None for what is no number, or larger than any time or rate."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if abs(value) <= LARGEST else None


def _from_csv(text: str, path: Path, *, rtt_us: int) -> LinkTrace:
    rows = list(csv.reader(text.splitlines()))
    header = [word.strip().lower() for word in rows[0]]
    known = {"time_s", "time_ms", "rate_mbit", "up_mbit", "down_mbit", "rtt_ms", "loss"}
    strange = [word for word in header if word not in known]
    times = [word for word in ("time_s", "time_ms") if word in header]
    rates = [word for word in ("rate_mbit", "up_mbit") if word in header]
    if strange or len(times) != 1 or len(rates) != 1 or len(set(header)) != len(header):
        raise DataFileError(
            Problem(
                f"the header is `{','.join(header)}`; it needs time_s or time_ms, rate_mbit or up_mbit, and may "
                "have rtt_ms, down_mbit, loss",
                file=str(path),
                line=1,
            )
        )
    columns: dict[str, list[float]] = {word: [] for word in header}
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        values = [_number(word) for word in row]
        if len(values) != len(header) or any(v is None or v < 0 for v in values):
            wanted = f"{len(header)} numbers, none negative or above {LARGEST:g}"
            raise DataFileError(
                Problem(f"`{','.join(row)[:60]}` is not {wanted}", file=str(path), line=number)
            )
        for word, value in zip(header, values, strict=True):
            columns[word].append(value or 0.0)
    unit_us = SECOND_US if times[0] == "time_s" else 1000
    stamps_us = [round((t - columns[times[0]][0]) * unit_us) for t in columns[times[0]]]
    if len(stamps_us) < 2 or any(b <= a for a, b in pairwise(stamps_us)):
        raise DataFileError(Problem("needs at least two rows, and times that rise", file=str(path)))
    period_us = stamps_us[-1] + stamps_us[-1] - stamps_us[-2]

    def steps(name: str, factor: float, default: float) -> Steps:
        values = columns.get(name)
        if values is None:
            return Steps.constant(default)
        return Steps(stamps_us, [v * factor for v in values], period_us=period_us)

    def capacity(values: Sequence[float]) -> Capacity:
        try:
            return Rates(stamps_us, [v / 8 for v in values], period_us=period_us)
        except ValueError as error:
            raise DataFileError(Problem(f"carries nothing: {error}", file=str(path))) from error

    delay = steps("rtt_ms", 500, rtt_us / 2)
    loss = steps("loss", 1, 0)
    if max(columns.get("loss", [0.0])) > 1:
        raise DataFileError(Problem("loss is a share of packets, at most 1", file=str(path)))
    back = columns.get("down_mbit")
    return LinkTrace(
        name=path.stem,
        up=Direction(
            capacity=capacity(columns[rates[0]]),
            delay_us=delay,
            loss=loss,
            queue_bytes=Steps.constant(QUEUE_BYTES),
        ),
        down=Direction(
            capacity=capacity(back) if back else Rates.constant(DOWN_MBIT_PER_S), delay_us=delay, loss=loss
        ),
        described=f"csv of {len(stamps_us)} rows",
    )
