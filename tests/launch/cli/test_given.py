"""Values that are given on the command line."""

import pytest

from tests.standin.world import World


@pytest.mark.parametrize(
    "words",
    [
        ("watch", "pair", "--every", "nan"),
        ("watch", "pair", "--every", "inf"),
        ("watch", "pair", "--every", "1e300"),
        ("watch", "pair", "--wait", "nan"),
        ("preflight", "pair", "--min-gbit", "nan"),
        ("preflight", "pair", "--min-gbit", "inf"),
    ],
    ids=" ".join,
)
def test_a_number_that_is_no_time_and_no_speed_is_a_usage_error(world: World, words: tuple[str, ...]) -> None:
    result = world.run(*words)
    assert (result.exit, f"Invalid value for '{words[2]}'" in result.err) == (1, True), result.err
