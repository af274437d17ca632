"""gRPC: one stream per lane, `Infer` for simple clients, health and reflection.

What goes wrong in gRPC is told in our own words: it reads this once, when any module here first loads it.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")
