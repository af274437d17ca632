"""What several replicas count, as one page Prometheus reads: each sample with the label `replica`, each family once.

Adding them up is Prometheus' business: a replica that ends takes its counts along, and a sum would fall with it.
"""

import re
from collections.abc import Mapping

_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+.*)")


def together(pages: Mapping[str, str]) -> str:
    """`pages` by replica, in Prometheus' text format; families in the order of the first page that has them."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    for replica, page in pages.items():
        family = ""
        for line in page.splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                head, _ = families.setdefault(family, ([], []))
                if line not in head:
                    head.append(line)
            elif found := _SAMPLE.fullmatch(line):
                name, labels, value = found.groups()
                inside = ",".join(part for part in (f'replica="{replica}"', labels) if part)
                families.setdefault(family, ([], []))[1].append(f"{name}{{{inside}}} {value}")
    return "".join(f"{line}\n" for head, samples in families.values() for line in (*head, *samples))
