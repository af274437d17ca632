"""What `nearfar outbox` does with a gateway's outbox: look, copy out, send up, give up."""
