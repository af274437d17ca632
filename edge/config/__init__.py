"""The pipeline's file: its blocks as people write them, what of them is probably not meant, what they mean to the scheduler."""
