"""Whether a Hello can be served by this worker, judged without state; refusals are in words."""

import re
from collections.abc import Mapping

from protos.wire.session import PROTOCOL_VERSION, Error, Hello, ModelInfo, RejectReason

# Names are printed, stored and used in paths by others: nothing in them may mean more than itself.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def refusal(
    hello: Hello, *, models: Mapping[str, ModelInfo], default_model: str, max_streams: int
) -> Error | None:
    """None if it can be served. `retry` is False where a person has to change something first."""
    if not hello.protocol_min <= PROTOCOL_VERSION <= hello.protocol_max:
        return Error(
            reason=RejectReason.VERSION,
            text=f"this worker speaks protocol {PROTOCOL_VERSION}, the agent {hello.protocol_min} to "
            f"{hello.protocol_max}; upgrade the older of the two",
            retry=False,
        )
    names = [s.name for s in hello.streams]
    for what, name in (("agent", hello.agent), *(("stream", name) for name in names)):
        if not _NAME.fullmatch(name):
            return _not_allowed(
                f"the name of the {what} has 1 to 128 letters, digits, '.', '_' or '-'; {name[:40]!r} does not"
            )
    if len(names) > max_streams:
        return _not_allowed(f"{len(names)} streams exceed per_agent.streams ({max_streams}) of this worker")
    if len(set(names)) < len(names):
        return _not_allowed("two streams have the same name")
    if any((s.width_px == 0) != (s.height_px == 0) for s in hello.streams):
        return _not_allowed("a stream has a width and a height in pixels, or neither while it is not known")
    wanted = hello.model or default_model
    if wanted not in models:
        return Error(
            reason=RejectReason.NO_MODEL,
            text=f"this worker has no model {wanted!r}; it has {', '.join(sorted(models))}",
            retry=False,
        )
    found = models[wanted].sha256
    if hello.model_sha256 and hello.model_sha256 != found:
        return Error(
            reason=RejectReason.NO_MODEL,
            text=f"model {wanted!r} of this worker has sha256 {found}, the agent wants {hello.model_sha256}",
            retry=False,
        )
    return None


def _not_allowed(text: str) -> Error:
    return Error(reason=RejectReason.NOT_ALLOWED, text=text, retry=False)
