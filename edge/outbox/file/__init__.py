"""The outbox as a SQLite file: rows, transactions, what is saved of a damaged one."""
