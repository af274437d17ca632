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
        if words := name_fault(what, name):
            return _not_allowed(words)
    if len(names) > max_streams:
        return _not_allowed(f"{len(names)} streams exceed per_agent.streams ({max_streams}) of this worker")
    if len(set(names)) < len(names):
        return _not_allowed("two streams have the same name")
    if any((s.width_px == 0) != (s.height_px == 0) for s in hello.streams):
        return _not_allowed("a stream has a width and a height in pixels, or neither while it is not known")
    words = model_fault(
        hello.model or default_model,
        sha256=hello.model_sha256,
        input_px=(hello.input_width_px, hello.input_height_px),
        models=models,
    )
    return Error(reason=RejectReason.NO_MODEL, text=words, retry=False) if words else None


def name_fault(what: str, name: str) -> str:
    """Why the name of `what` cannot be used; empty if it can."""
    if _NAME.fullmatch(name):
        return ""
    return f"the name of the {what} has 1 to 128 letters, digits, '.', '_' or '-'; {name[:40]!r} does not"


def model_fault(
    wanted: str, *, sha256: str, input_px: tuple[int, int], models: Mapping[str, ModelInfo]
) -> str:
    """Why `models` have not what is wanted; empty if they have. An empty `sha256` and an input of (0, 0) px take
    any."""
    if wanted not in models:
        return f"this worker has no model {wanted!r}; it has {', '.join(sorted(models))}"
    found = models[wanted]
    if sha256 and sha256 != found.sha256:
        return f"model {wanted!r} of this worker has sha256 {found.sha256}, wanted is {sha256}"
    if input_px not in ((0, 0), (found.input_width_px, found.input_height_px)):
        return (
            f"model {wanted!r} of this worker runs at {found.input_width_px}x{found.input_height_px} px, "
            f"wanted is {input_px[0]}x{input_px[1]}"
        )
    return ""


def _not_allowed(text: str) -> Error:
    return Error(reason=RejectReason.NOT_ALLOWED, text=text, retry=False)
