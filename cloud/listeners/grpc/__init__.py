"""gRPC: one stream per lane, `Infer` for simple clients, health and reflection."""
