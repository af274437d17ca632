"""The contract between agent and worker: inference.proto and its domain values in `protos.wire`."""
