"""A record store in numbers: how many rows it holds, and who answered them."""

from sqlalchemy import case, func, select
from sqlalchemy.engine import Connection

from cloud.store.sql.tables import gaps, records
from pipelines.result import AnsweredBy


def totals(connection: Connection) -> dict[str, int]:
    """As `RecordStore.counts` gives them."""
    late = records.c.far_status.is_not(None) & (records.c.answered_by != AnsweredBy.FAR.value)
    answerers = connection.execute(
        select(records.c.answered_by, func.count()).group_by(records.c.answered_by)
    )
    by: dict[str | None, int] = {row[0]: row[1] for row in answerers}
    on_time, late_far = connection.execute(
        select(
            func.coalesce(func.sum(case((records.c.on_time, 1), else_=0)), 0),
            func.coalesce(func.sum(case((late | records.c.late_far, 1), else_=0)), 0),
        )
    ).one()
    gap_count = connection.execute(select(func.count()).select_from(gaps)).scalar_one()
    return {
        "records": sum(by.values()),
        **{who.value: by.get(who.value, 0) for who in AnsweredBy},
        "unknown": by.get(None, 0),
        "on_time": int(on_time),
        "late_far": int(late_far),
        "gaps": int(gap_count),
    }
