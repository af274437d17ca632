"""What the record store says to a database, and what SQLite and PostgreSQL make of it."""
