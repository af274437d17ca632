"""Domain values ↔ protobuf messages ↔ ZeroMQ parts. The only place that knows the generated code."""
