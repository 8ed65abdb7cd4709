"""What a node's kernel knows of a rank's connections, on a real socket that nobody accepts from."""

import os
import shutil
import socket
import subprocess
from contextlib import ExitStack

import pytest

from launch.engines.kernel import ASK_SECONDS, Turns, Unanswered, look_words, read
from tests.standin.world import until


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("0500007F:8FFF own", Unanswered("127.0.0.5", 36863)),
        ("0101A8C0:733D any", Unanswered("192.168.1.1", 29501, own=False)),
        ("0000000000000000FFFF00000100000A:0050 own", Unanswered("10.0.0.1", 80)),
        ("B80D0120000000000000000001000000:0050 own", Unanswered("2001:db8::1", 80)),
    ],
)
def test_an_end_is_read_as_the_kernel_writes_it(line: str, wanted: Unanswered) -> None:
    assert read([line, line]) == (wanted,)


def test_a_process_is_asked_at_once_and_then_now_and_then() -> None:
    now = [0.0]
    turns = Turns(lambda: now[0])
    assert (turns.now(1), turns.now(1), turns.now(2)) == ("-1", None, "-1")
    now[0] = ASK_SECONDS
    assert turns.now(1) == "-1"


def test_connections_are_read_again_only_where_packets_were_sent_again_or_one_was_unanswered() -> None:
    """To read the list takes the kernel milliseconds, on a machine that has work to do."""
    now = [0.0]
    turns = Turns(lambda: now[0])

    def asked(*lines: str) -> str | None:
        turns.told(1, lines)
        now[0] += ASK_SECONDS
        return turns.now(1)

    assert asked("resent 7") == "7"
    assert asked("resent 8", "0500007F:8FFF own") == "-1"
    assert asked("resent 8") == "8"
    # A kernel that does not tell, and a process that is gone.
    assert (asked("resent ?"), asked()) == ("-1", "-1")


@pytest.mark.parametrize("awk", ["awk", "busybox"])
def test_a_connection_that_nobody_answers_is_found_and_one_that_is_answered_is_not(awk: str) -> None:
    if shutil.which(awk) is None:
        pytest.skip(f"there is no {awk}")
    with ExitStack() as stack:
        served, full = (stack.enter_context(socket.create_server(("127.0.0.5", 0), backlog=it)) for it in (8, 0))
        stack.enter_context(socket.create_connection(served.getsockname()))
        for _ in range(3):
            # A server whose queue is full lets the kernel drop what comes, as a cable that is out does.
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(full.getsockname())
        program = ["busybox", "awk"] if awk == "busybox" else [awk]

        def ask(resent: str | None) -> list[str]:
            words = [*program, *look_words(os.getpid(), resent)[1:]]
            return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()

        until(lambda: len(ask("-1")) > 2)
        _, resent, *ends = ask("-1")
        assert (resent.split()[0], int(resent.split()[1]) > 0) == ("resent", True)
        assert read(ends) == (Unanswered(*full.getsockname()),)
        # Other tests of this machine may send something again in between.
        until(lambda: len(ask(ask("-1")[1].split()[1])) == 2)
        assert len(ask(None)) == 1
