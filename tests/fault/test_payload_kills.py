"""kill −9 in the middle of a picture, on either side: it goes on where it was and arrives once, intact."""

from pathlib import Path
from typing import Any

from cloud.store.payloads.folder import PayloadFolder, folder_of
from cloud.store.payloads.store import Payloads
from cloud.store.records import open_store
from pipelines.codecs.base import PictureLimits
from pipelines.codecs.zstd import ZstdCodec
from tests.support.eventually import eventually
from tests.support.rig import Rig, rig

KILLS = 3
SENDS = """\
uplink:
  archive: {codec: zstd}
  rules:
    - {every: 10, send: [result, payload]}
    - {send: [result]}
"""


class Parts:
    """The uploads that are not whole, as the worker has them on its disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def sizes(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for path in self.root.glob("*/parts/*"):
            try:
                found[path.name] = path.stat().st_size
            except FileNotFoundError:
                continue
        return found

    def wait(self) -> dict[str, int]:
        return eventually(lambda: {n: s for n, s in self.sizes().items() if s > 0}, 30, "a part")


def test_a_kill_of_worker_or_gateway_in_the_middle_of_a_picture_costs_nothing(tmp_path: Path) -> None:
    keeps = f"store: {{payloads: {{path: {tmp_path}/pictures, keep: none}}}}\n"
    parts = Parts(tmp_path / "pictures")
    with rig(tmp_path, policy="near_only", size="1280x720", fps=5, extra=SENDS, worker_extra=keeps) as r:
        r.start_worker()
        r.start_agent()
        for number in range(2 * KILLS):
            before = parts.wait()
            if number % 2:
                r.kill_agent()
                r.start_agent()
            else:
                assert r.worker is not None
                r.worker.kill()
                kept = parts.sizes()
                assert all(kept.get(name, 0) >= size for name, size in before.items() if name in kept)
                r.start_worker()
            r.wait_more(3)
        r.kill_agent()
        r.start_agent("--frames", "10")
        summary = r.finish_agent(within_s=90)
        r.stop_worker()
        check(r, summary, parts)


def check(r: Rig, summary: dict[str, Any], parts: Parts) -> None:
    outbox = summary["outbox"]
    assert outbox["adds_up"]
    assert outbox["payloads_pending"] == 0
    assert outbox["payloads_evicted"] == {"age": 0, "bytes": 0, "purged": 0}
    assert outbox["payloads_set_aside"] == outbox["payloads_refused"] == 0
    assert parts.sizes() == {}
    with open_store(f"sqlite:///{r.root}/worker/records.db") as store:
        folder = PayloadFolder(folder_of(r.root / "pictures", store.store_id))
        payloads = Payloads(store, folder, max_bytes=1 << 30)
        refs = payloads.refs(store.identities())
        assert len(refs) == outbox["payloads_acked"] >= 2 * KILLS
        limits = PictureLimits(pixels=1280 * 720, decoded_bytes=1280 * 720 * 3)
        for ref in refs:
            assert ref.kept
            picture = ZstdCodec().decode(payloads.read(ref.sha256), ref.encoding, limits)
            assert picture.shape == (720, 1280, 3)
