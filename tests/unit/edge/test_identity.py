"""Who an agent is: one name, one run a start, one agent a directory."""

import pytest

from edge.identity import StateDir
from pipelines.errors import ConfigError


def test_a_name_is_made_once_and_kept(tmp_path):
    first = StateDir(tmp_path)
    made = first.identity(None)
    first.close()
    second = StateDir(tmp_path)
    again = second.identity(None)
    second.close()
    assert made.agent == again.agent
    assert made.run != again.run
    assert len(made.run) == 16


def test_a_second_agent_in_the_same_directory_is_refused_with_words(tmp_path):
    first = StateDir(tmp_path)
    with pytest.raises(ConfigError, match="another agent runs in"):
        StateDir(tmp_path)
    first.close()
    StateDir(tmp_path).close()


def test_a_name_that_is_no_name_is_refused(tmp_path):
    state = StateDir(tmp_path)
    with pytest.raises(ConfigError, match="must be 1"):
        state.identity("a name with spaces")
    state.close()


def test_a_directory_that_cannot_be_made_says_what_to_do(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--set state_dir"):
        StateDir(tmp_path / "file" / "state")
