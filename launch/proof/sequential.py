"""Whether repeated measurements clear a bar: looked at after each one, bounded, at a stated confidence. Pure.

Each look compares the bar with Student's interval of the mean; the chance of a wrong verdict is shared out evenly
between the looks that there may be (Bonferroni), so looking often does not make a wrong pass more likely. The figures
must be of independent runs whose noise is roughly symmetric; docs/gates.md says how often verdicts were wrong in
simulations, also where it is not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from statistics import fmean, stdev


class Reading(StrEnum):
    """What an interval says about a bar that must be reached."""

    CLEARS = "clears"
    MISSES = "misses"
    OPEN = "open"


@dataclass(frozen=True)
class Interval:
    """The mean of `n` runs and its bounds, each wrong with the same small chance; without bounds for one run."""

    n: int
    mean: float
    low: float
    high: float

    def reads(self, bar: float) -> Reading:
        """Whether the mean is at least `bar`, for all that is known."""
        if self.low >= bar:
            return Reading.CLEARS
        return Reading.MISSES if self.high < bar else Reading.OPEN

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f} over {self.n} runs)"


@dataclass(frozen=True)
class Looks:
    """How often is looked: from `fewest` runs on after each one, up to `most`; `confidence` is that of all together.

    With `most` 1 a single run is taken as it is.
    """

    fewest: int
    most: int
    confidence: float

    def interval(self, values: Sequence[float]) -> Interval:
        """The interval at this look. Errors: ValueError without values."""
        if not values:
            raise ValueError("no runs")
        mean = fmean(values)
        if self.most == 1:
            return Interval(1, mean, mean, mean)
        if len(values) == 1:
            return Interval(1, mean, -math.inf, math.inf)
        tail = (1 - self.confidence) / (self.most - self.fewest + 1)
        half = quantile(1 - tail, len(values) - 1) * stdev(values) / math.sqrt(len(values))
        return Interval(len(values), mean, mean - half, mean + half)

    def reads(self, values: Sequence[float], bar: float) -> Reading:
        """What the runs so far say; open below `fewest`."""
        if len(values) < self.fewest:
            return Reading.OPEN
        return self.interval(values).reads(bar)


@cache
def quantile(probability: float, freedom: int) -> float:
    """Student's t quantile, above the median, for whole degrees of freedom.

    Errors: ValueError for a probability outside of 0.5 to 1, or no freedom.
    """
    if not 0.5 <= probability < 1 or freedom < 1:
        raise ValueError(f"no quantile of {probability} with {freedom} degrees of freedom")
    low, high = 0.0, 1.0
    while _within(high, freedom) < 2 * probability - 1:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if _within(middle, freedom) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _within(t: float, freedom: int) -> float:
    # P(-t < T < t) in closed form for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4).
    angle = math.atan(t / math.sqrt(freedom))
    cosine2 = math.cos(angle) ** 2
    odd = freedom % 2
    if freedom == 1:
        return 2 * angle / math.pi
    term = math.cos(angle) if odd else 1.0
    total = term
    for k in range(2 + odd, freedom - 1, 2):
        term *= cosine2 * (k - 1) / k
        total += term
    series = math.sin(angle) * total
    return 2 / math.pi * (angle + series) if odd else series
