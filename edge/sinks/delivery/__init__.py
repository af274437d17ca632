"""Answers for a receiver that may be slow, busy or away: kept in a spool, brought by a postman, at least once."""
