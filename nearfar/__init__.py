"""The `nearfar` command."""

__version__ = "0.1.0"
