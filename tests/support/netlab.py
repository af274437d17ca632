"""netlab of ../shared, loaded by its path: two namespaces of the kernel, joined by an emulated link. Needs root."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

SHARED = Path(__file__).parents[2].parent / "shared"
NETLAB = SHARED / "netlab/netlab.py"


@cache
def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("netlab", NETLAB)
    if spec is None or spec.loader is None or not NETLAB.is_file():
        raise FileNotFoundError(f"there is no netlab at {NETLAB}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["netlab"] = module
    spec.loader.exec_module(module)
    return module


def link(profile: dict[str, Any], **options: Any) -> Any:
    """A `netlab.Link`, not started: `with link({...}, cc="cubic") as wire`. Its README says what a profile has."""
    return _module().Link(profile, **options)


def clear_away() -> list[str]:
    """Namespaces of runs that died are removed; never one whose owner lives."""
    return list(_module().gc())
