"""What a configuration is refused with."""

import pytest

from pipelines.errors import ConfigError


def refused(load, *overrides, **more):
    with pytest.raises(ConfigError) as caught:
        load(*overrides, **more)
    return str(caught.value)
