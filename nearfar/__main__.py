"""`python -m nearfar`, the same as the `nearfar` command."""

from nearfar.start import main

main()
