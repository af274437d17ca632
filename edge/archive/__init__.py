"""Pictures of frames that were not answered far: which are kept, made small, and handed to the outbox."""
