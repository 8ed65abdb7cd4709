"""Variables of a rank that Hallmark reads itself, as the numbers that vLLM takes them for."""

import math
from collections.abc import Mapping

from recipe.errors import HallmarkError

NUMBERS = ("VLLM_ENGINE_READY_TIMEOUT_S", "VLLM_CPU_KVCACHE_SPACE")


def number(env: Mapping[str, str], name: str, default: float) -> float:
    """The variable's value. Errors: HallmarkError when it is no finite number of at least 0."""
    text = env.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise HallmarkError(f"{name}: {text!r} is not a number", hint="write digits, such as 600")
    return value
