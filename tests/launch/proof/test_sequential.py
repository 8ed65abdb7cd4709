"""Sequential looks at a bar: exact quantiles, properties, and how often verdicts are wrong in simulations."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launch.proof.sequential import Looks, Reading, quantile

LOOKS = Looks(3, 10, 0.95)
RATES = st.floats(0.1, 1000)


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    # Printed tables of Student's distribution.
    [
        (0.95, 1, 6.3138),
        (0.975, 2, 4.3027),
        (0.99, 3, 4.5407),
        (0.99, 4, 3.7469),
        (0.975, 9, 2.2622),
        (0.995, 30, 2.75),
    ],
)
def test_quantiles_are_those_of_the_tables(probability: float, freedom: int, expected: float) -> None:
    assert quantile(probability, freedom) == pytest.approx(expected, abs=6e-5)


@settings(deadline=None, derandomize=True)
@given(st.lists(RATES, min_size=2, max_size=10), RATES)
def test_more_speed_never_makes_a_verdict_worse(values: list[float], bar: float) -> None:
    order = [Reading.MISSES, Reading.OPEN, Reading.CLEARS]
    before = order.index(LOOKS.reads(values, bar))
    assert order.index(LOOKS.reads([value + 1 for value in values], bar)) >= before
    assert order.index(LOOKS.reads(values, bar / 2)) >= before


@settings(deadline=None, derandomize=True)
@given(st.lists(RATES, min_size=3, max_size=10), RATES, st.floats(0.01, 100))
def test_a_verdict_does_not_depend_on_the_unit(values: list[float], bar: float, unit: float) -> None:
    found = LOOKS.interval(values)
    scaled = LOOKS.interval([value * unit for value in values])
    assert scaled.mean == pytest.approx(found.mean * unit)
    assert scaled.high - scaled.low == pytest.approx((found.high - found.low) * unit, rel=1e-6, abs=1e-6 * unit)


@settings(deadline=None, derandomize=True)
@given(st.lists(RATES, min_size=3, max_size=10))
def test_the_mean_lies_in_its_interval_and_more_allowed_looks_make_it_wider(values: list[float]) -> None:
    one, many = Looks(3, 3, 0.95).interval(values), Looks(3, 30, 0.95).interval(values)
    assert many.low <= one.low <= one.mean <= one.high <= many.high


def test_below_the_fewest_runs_nothing_is_said() -> None:
    assert LOOKS.reads([50.0, 50.0], 30.0) is Reading.OPEN
    assert LOOKS.reads([50.0, 50.0, 50.0], 30.0) is Reading.CLEARS
    assert LOOKS.reads([20.0, 20.0, 20.0], 30.0) is Reading.MISSES
    assert LOOKS.interval([50.0]).high == math.inf
    assert Looks(1, 1, 0.95).reads([31.0], 30.0) is Reading.CLEARS


def _verdict(draw: Callable[[], float], bar: float) -> tuple[Reading, int]:
    values = [draw() for _ in range(LOOKS.fewest)]
    while (found := LOOKS.reads(values, bar)) is Reading.OPEN and len(values) < LOOKS.most:
        values.append(draw())
    return found, len(values)


def _slow_ones(source: random.Random) -> float:
    # One run in ten is a third slower, as when something else ran on the machine.
    return source.gauss(1, 0.02) * (0.67 if source.random() < 0.1 else 1.0)


@pytest.mark.parametrize(
    ("noise", "mean", "most_wrong"),
    [
        (lambda source: source.gauss(1, 0.02), 1.0, 0.05),
        (lambda source: source.gauss(1, 0.15), 1.0, 0.05),
        (lambda source: source.lognormvariate(-0.005, 0.1), 1.0, 0.06),
        # Without one of the slow runs the others look steady and a little too fast: the honest limit of so few runs.
        (_slow_ones, 0.967, 0.55),
    ],
    ids=["quiet", "noisy", "skewed", "slow-ones"],
)
def test_a_bar_at_the_true_mean_is_seldom_cleared_and_seldom_missed(
    noise: Callable[[random.Random], float], mean: float, most_wrong: float
) -> None:
    source = random.Random(20261201)
    found = [_verdict(lambda: noise(source), mean)[0] for _ in range(2000)]
    cleared, missed = (found.count(reading) / len(found) for reading in (Reading.CLEARS, Reading.MISSES))
    print(f"cleared {cleared:.3f}, missed {missed:.3f}")
    assert cleared <= most_wrong
    assert missed <= 0.06


def test_a_figure_far_from_its_bar_is_decided_early() -> None:
    source = random.Random(1)
    found = [_verdict(lambda: source.gauss(45, 1), 30.0) for _ in range(500)]
    assert {reading for reading, _ in found} == {Reading.CLEARS}
    assert sum(runs for _, runs in found) / len(found) < 3.2
