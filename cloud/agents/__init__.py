"""Who is connected: welcomed or refused, found by name, and what each message of a connection means."""
