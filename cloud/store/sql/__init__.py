"""Databases of the record store: its tables, the statements that write, and what differs between SQLite and PostgreSQL."""
