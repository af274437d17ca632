"""What an agent shows Prometheus of its links: one family per name, labelled by link.

Needs prometheus_client (the extra `metrics`); only `edge.telemetry.metrics` imports it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from edge.far.sight import LinkSight


def families(prefix: str, links: Sequence[LinkSight]) -> Iterator[Metric]:
    """A value for each link under each name; what is not known is absent. `links` are not empty."""

    def gauge(name: str, words: str, values: Mapping[str, float]) -> Metric:
        return _filled(GaugeMetricFamily(f"{prefix}_link_{name}", words, labels=("link",)), values)

    def counter(name: str, words: str, values: Mapping[str, float]) -> Metric:
        return _filled(CounterMetricFamily(f"{prefix}_link_{name}", words, labels=("link",)), values)

    def each(value: Callable[[LinkSight], float], among: Iterable[LinkSight] = links) -> dict[str, float]:
        return {link.link: value(link) for link in among}

    yield gauge("connected", "1 while a worker has welcomed this agent.", each(lambda s: s.connected))
    yield gauge(
        "in_budget",
        "1 while round trips are inside the band; outside only frames that look worth it go.",
        each(lambda s: s.in_budget),
    )
    if measured := [s for s in links if s.rtt_us is not None]:
        yield gauge(
            "rtt_seconds",
            "The last round trip, without the worker's time.",
            each(lambda s: (s.rtt_us or 0) / 1e6, measured),
        )
        yield gauge(
            "rtt_min_seconds", "The shortest of the last 10 s.", each(lambda s: s.rtt_min_us / 1e6, measured)
        )
    yield gauge(
        "bandwidth_bytes_per_second",
        "As the last frames measured it; 0 before the first.",
        each(lambda s: s.bytes_per_us * 1e6),
    )
    yield gauge(
        "in_flight_bytes",
        "Payloads about to go, or sent and not yet across.",
        each(lambda s: s.in_flight_bytes),
    )
    if paid := [s for s in links if s.budget_left_bytes is not None]:
        yield gauge(
            "data_budget_left_bytes",
            "What may still be sent before the data budget refills; negative after what could not wait.",
            each(lambda s: s.budget_left_bytes or 0, paid),
        )
    yield counter("connections", "Live connections a worker welcomed.", each(lambda s: s.connections))
    yield counter("sent_bytes", "Bytes handed to the network, both lanes.", each(lambda s: s.sent_bytes))
    yield counter(
        "bad_messages",
        "Messages from a worker that were none of the protocol's.",
        each(lambda s: s.bad_messages),
    )
    yield counter(
        "too_large",
        "Sends refused because the worker takes no message of that size.",
        each(lambda s: s.too_large),
    )


def _filled(
    family: CounterMetricFamily | GaugeMetricFamily, values: Mapping[str, float]
) -> CounterMetricFamily | GaugeMetricFamily:
    for link, value in values.items():
        family.add_metric((link,), value)
    return family
