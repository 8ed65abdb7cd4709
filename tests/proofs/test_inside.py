"""The forks of the proofs' interpreter: none answers for another, and none leaves a question without an answer."""

import json
import os
from collections.abc import Iterable

from tests.proofs.inside import Fork


def test_a_fork_answers_every_question_in_its_own_process() -> None:
    fork = Fork(lambda questions: (f"{question.strip()} {os.getpid()}" for question in questions))
    first, second = fork.ask("a").split(), fork.ask("b").split()
    fork.close()
    assert [first[0], second[0]] == ["a", "b"]
    assert first[1] == second[1] != str(os.getpid())


def test_a_question_that_ends_the_fork_is_answered_with_an_error_and_so_are_those_after_it() -> None:
    def answer(questions: Iterable[str]) -> Iterable[str]:
        for question in questions:
            if question.strip() == "die":
                raise RuntimeError("no such module")
            yield "alive"

    fork = Fork(answer)
    assert fork.ask("live") == "alive"
    assert "error" in json.loads(fork.ask("die"))
    assert "error" in json.loads(fork.ask("live"))
    fork.close()
