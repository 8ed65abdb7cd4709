"""A locally made data set in ShareGPT's form, for a load of its shape where the real one is not at hand."""

import json
import random
from pathlib import Path

_TASKS = (
    "Explain {topic} to somebody who has never heard of it.",
    "Write a short plan for {topic}, with three steps and what can go wrong in each.",
    "I have a problem with {topic}. What questions should I ask before I change anything?",
    "Compare two ways of {topic} and say which one you would take, and why.",
    "Write a Python function that helps with {topic}, with a docstring and two examples.",
    "Summarise what follows about {topic} in five sentences, then list what is missing.",
)
_TOPICS = (
    "keeping bees on a balcony", "moving a database without downtime", "learning to sail", "baking bread at altitude",
    "repairing a bicycle wheel", "reading a balance sheet", "teaching fractions", "planning a night train journey",
    "insulating an attic", "writing a cover letter", "tuning a piano", "growing tomatoes indoors",
)  # fmt: skip
_CONTEXT = (
    "So far I have read two books about it and asked a neighbour.",
    "The budget is small, and there are about six weeks left.",
    "An earlier attempt failed because nobody had written down what was decided.",
    "Two people will help on weekends, but neither has done this before.",
    "Please keep in mind that the rules in our town changed last year.",
    "Last time the measurements were wrong by a tenth, and we noticed too late.",
)


def write(path: Path, count: int, seed: int = 0) -> None:
    """Write `count` conversations of one question and one answer; the same for the same seed.

    Questions are 10 to about 700 words long, most of them short, as people's are.
    """
    draw = random.Random(seed)
    entries = []
    for number in range(count):
        question = draw.choice(_TASKS).format(topic=draw.choice(_TOPICS))
        sentences = [draw.choice(_CONTEXT) for _ in range(min(60, int(draw.expovariate(1 / 8))))]
        turns = [
            {"from": "human", "value": " ".join([question, *sentences])},
            # Its length is not used: the preset fixes the length of every answer.
            {"from": "gpt", "value": " ".join(draw.choice(_CONTEXT) for _ in range(8))},
        ]
        entries.append({"id": f"local-{number}", "conversations": turns})
    path.write_text(json.dumps(entries, indent=1), encoding="utf-8")
