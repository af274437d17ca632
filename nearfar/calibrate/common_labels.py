"""One list of labels for near and far, so that their boxes can be compared: the recipe's, or far's own without any.

What only one of them can name is no fault of the other's picture, but it is no answer either: it is said, and counts
as not seen.
"""

from collections.abc import Mapping, Sequence

from pipelines.errors import ConfigError
from pipelines.labels import LabelSpace
from pipelines.result import Detections

_SHOWN = 4


class CommonLabels:
    """`labels`, `renames` of the recipe; None: it has none. `near` None: there is no near.

    Raises ConfigError when near or far can report nothing that is compared. `notes`: what is allowed and probably
    not meant, one sentence each.
    """

    def __init__(
        self,
        labels: Sequence[str] | None,
        renames: Mapping[str, str],
        *,
        near: Sequence[str] | None,
        far: Sequence[str],
    ) -> None:
        self._space = LabelSpace(far if labels is None else labels, renames)
        self.notes: tuple[str, ...] = ()
        for who, known in (("far", far), ("near", near)):
            if known is not None and len(self._space.unreported(known)) == len(self._space.names):
                raise ConfigError(
                    self._nothing(who, known, recipes=labels is not None, near=near or (), far=far)
                )
        if labels is not None:
            said = self._space.complaints(who="far", labels=far, other=near)
            if near is not None:
                said += self._space.complaints(who="near", labels=near, other=far)
            self.notes = tuple(dict.fromkeys(said))
        elif near is not None and (unknown := self._space.unreported(near)):
            words = (
                f"near cannot name {len(unknown)} of far's {len(far)} labels ({_some(unknown)}), so what far sees of "
                "them counts as not seen near; say in `labels` which ones matter"
            )
            self.notes = (words,)

    def apply(self, detections: Detections) -> Detections:
        """The detections that are compared, in the common labels."""
        return self._space.apply(detections)

    def _nothing(
        self, who: str, known: Sequence[str], *, recipes: bool, near: Sequence[str], far: Sequence[str]
    ) -> str:
        if not recipes:
            return (
                f"near and far share no label: near says {_some(near)}, far says {_some(far)}; name those that "
                "matter in `labels`, and in `label_map` what means the same"
            )
        said = self._space.complaints(who=who, labels=known)
        return f"{who} reports none of the recipe's labels, so it cannot be compared: " + "; ".join(said)


def _some(labels: Sequence[str]) -> str:
    shown = ", ".join(labels[:_SHOWN])
    return f"{shown} …" if len(labels) > _SHOWN else shown
