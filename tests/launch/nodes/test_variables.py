"""Variables that Hallmark reads as numbers."""

import pytest

from launch.nodes.variables import number
from recipe.errors import HallmarkError


def test_a_number_is_read_and_a_missing_one_has_its_default() -> None:
    assert number({"A": "1.5"}, "A", 3) == 1.5
    assert number({}, "A", 3) == 3


@pytest.mark.parametrize("text", ["", "ten", "-1", "inf", "nan", "1 s"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(HallmarkError, match=f"A: '{text}' is not a number"):
        number({"A": text}, "A", 3)
