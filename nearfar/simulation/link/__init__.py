"""How a link behaves in virtual time: traces, queues, loss and TCP."""
