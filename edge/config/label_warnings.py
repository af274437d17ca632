"""Rules that ask for a label which near's own detector never shows.

Where the file has `labels`, that is a fault. Without them far's model may show it, whose labels only its worker tells.
"""

from collections.abc import Iterator

from edge.config.pipeline import PipelineConfig
from pipelines.detectors.known_labels import known_labels
from pipelines.labels import or_nearest


def label_warnings(config: PipelineConfig) -> Iterator[str]:
    """A sentence for each such rule."""
    if config.labels is not None or config.near is None:
        return
    known = known_labels(config.near.detector)
    for place, label in _asked(config):
        if label not in known:
            who = "near never shows it" if config.links else "no answer shows it"
            yield f"{place}.when.label: {label} is no label of {config.near.detector.kind}, {who}{or_nearest(label, known)}"


def _asked(config: PipelineConfig) -> Iterator[tuple[str, str]]:
    for name, stream in config.streams.items():
        for number, rule in enumerate(stream.rules):
            if rule.when.label is not None:
                yield f"streams.{name}.rules.{number}", rule.when.label
    for number, sent in enumerate(config.uplink.rules):
        if sent.when is not None and sent.when.label is not None:
            yield f"uplink.rules.{number}", sent.when.label
