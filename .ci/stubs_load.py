"""Runs on another protobuf than the tests: the committed stubs load and a message makes the round trip."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import google.protobuf

from protos.wire import multipart
from protos.wire.session import Hello, Lane

hello = Hello(agent="gw", run=bytes(16), lane=Lane.LIVE)
if multipart.unpack_to_worker(multipart.pack_to_worker(hello)) != hello:
    sys.exit("a Hello changed on its way through protobuf")
print("protobuf", google.protobuf.__version__, "ok")
