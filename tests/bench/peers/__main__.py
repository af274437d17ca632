"""`python -m tests.bench.peers [--install] [--quick] --json FILE|-`: the same as `tests.bench.transport --peers`."""

from tests.bench.peers.comparison import compare
from tests.bench.report import run

INSTALL = "make the environments of peers that are not installed, first"

if __name__ == "__main__":
    run("peers", compare, install=INSTALL)
