"""`python -m nearfar`, the same as the `nearfar` command."""

from nearfar.cli.main import main

main()
