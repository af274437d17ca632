"""What a pipeline file allows and its writer probably did not mean. Needs none of the code that the file names."""

from edge.config.label_warnings import label_warnings
from edge.config.pipeline import PipelineConfig
from edge.config.uplink import uplink_warnings
from edge.sinks.kinds import unencrypted
from pipelines.codecs.kinds import LEVELS


def warnings(config: PipelineConfig) -> list[str]:
    """What is allowed and probably not meant, one sentence each."""
    said = [*unencrypted(config.sinks), *uplink_warnings(config.uplink, has_link=bool(config.links))]
    said += label_warnings(config)
    urls = [link.url for link in config.links.values()]
    for url in dict.fromkeys(url for url in urls if urls.count(url) > 1):
        names = " and ".join(name for name, link in config.links.items() if link.url == url)
        said.append(f"links {names} lead to the same address {url}: give each worker a link of its own")
    smaller = None if config.near is None else config.near.smaller
    if config.near is not None and smaller is not None and smaller.accuracy >= config.near.accuracy:
        said.append(
            "near.smaller.accuracy is not below near.accuracy: if that is so, make it the detector's own input"
        )
    if config.near is None:
        said.append("no near detector: a frame the link cannot carry in time is answered as missed")
    if not config.links:
        said.append("no link: every frame is answered near, and the outbox fills up to its bounds")
    elif config.scheduler.policy in ("deadline", "confidence") and config.near is not None:
        if config.scheduler.hedge.start == "never":
            said.append("hedge.start is never: an offloaded frame whose answer is late is missed")
        ladder, price = config.scheduler.ladder, config.scheduler.byte_price
        best = max(ladder, key=lambda rung: rung.accuracy)
        gain = best.accuracy - config.near.accuracy
        if gain <= 0:
            said.append("near.accuracy is not below the ladder's: no frame is worth offloading")
        elif price > 0 and all(rung.codec in LEVELS for rung in ladder):
            said.append(
                f"{best.codec} is lossless and byte_price is {price:g} per kB: a picture above {gain / price:.0f} kB "
                "is never worth offloading; set scheduler.byte_price: 0 if bytes cost you nothing"
            )
    return said
