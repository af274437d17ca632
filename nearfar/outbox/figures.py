"""An outbox in numbers: the law it is balanced by, what waits, what it takes."""

from typing import Any

from nearfar.outbox.view import OutboxView


def law(figures: dict[str, Any], *, pictures: bool = False) -> str:
    """The law as a sum; of records, or of pictures, of which those that were refused are gone."""
    evicted = " + ".join(f"{count} ({why})" for why, count in figures["evicted"].items())
    refused = f"refused {figures['refused']} + " if pictures else ""
    return (
        f"committed {figures['committed']} {'=' if figures['adds_up'] else '≠'} acked {figures['acked']} + "
        f"pending {figures['pending']} + evicted {evicted} + {refused}set aside {figures['set_aside']}"
    )


def figures_of(view: OutboxView) -> dict[str, Any]:
    """As `nearfar outbox stat --json` prints them."""
    ledger, oldest_us = view.ledger(), view.oldest_us()
    return {
        "path": str(view.file),
        "agent": view.agent(),
        "committed": ledger.committed,
        "acked": ledger.acked,
        "pending": ledger.pending,
        "evicted": ledger.evicted,
        "set_aside": ledger.set_aside,
        "adds_up": ledger.balance == 0,
        "set_aside_files": ledger.set_aside_files,
        "refused": ledger.refused,
        "gaps_pending": ledger.gaps,
        "gaps_dropped": ledger.gaps_dropped,
        "pending_by_priority": view.by_priority(),
        "oldest_s": 0.0 if oldest_us is None else round(oldest_us / 1e6, 3),
        "payloads": {
            "committed": ledger.payloads_committed,
            "acked": ledger.payloads_acked,
            "pending": ledger.payloads_pending,
            "evicted": ledger.payloads_evicted,
            "refused": ledger.payloads_refused,
            "set_aside": ledger.payloads_set_aside,
            "adds_up": ledger.payload_balance == 0,
            "bytes": ledger.payload_bytes,
        },
        "bytes": ledger.bytes,
        "file_bytes": view.file_bytes,
        "flash_bytes_written": ledger.flash_bytes_written,
        "flash_gb_per_day": round(ledger.flash_gb_per_day, 4),
        "uptime_s": round(ledger.uptime_us / 1e6, 3),
    }
