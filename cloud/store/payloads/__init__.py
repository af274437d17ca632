"""The pictures behind the records: files named by their content, and the rows that say whose they are."""
