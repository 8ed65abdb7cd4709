"""The worker process of a rank: meets the others at the master port, and takes part in every step.

Like vLLM's it outlives its parent, and one that is not the head's does not notice when the head is gone.
"""

import errno
import signal
import socket
import time

from . import behaviour

READY, STEP, DONE, LOST = b"r", b"s", b"d", b"l"
_LIFETIME_SECONDS = 300


def outlive() -> None:
    """End by itself at last, so that a test that was killed leaves nothing for good."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_LIFETIME_SECONDS)


def head(parent: socket.socket, address: tuple[str, int], ranks: int) -> None:
    """Wait for the other ranks, then carry each step to them; a rank that does not answer is lost for good."""
    if behaviour.DEAF_STORE:
        _deaf(address)
    with socket.create_server(address, reuse_port=False) as server:
        others = [server.accept()[0] for _ in range(ranks - 1)]
        for other in others:
            other.sendall(READY)
        parent.sendall(READY)
        while parent.recv(1):
            parent.sendall(DONE if all(_step(other) for other in others) else LOST)
        # The store of the ranks stays open for as long as the process lives.
        signal.pause()


def other(parent: socket.socket, address: tuple[str, int]) -> None:
    """Join the head, then answer its steps."""
    while behaviour.DEAF_STORE:
        _spin(address)
    while True:
        try:
            link = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    parent.sendall(link.recv(1))
    while link.recv(1):
        link.sendall(DONE)
    signal.pause()


def _deaf(address: tuple[str, int]) -> None:
    """Listen with a queue that is full: the kernel drops what comes."""
    with socket.create_server(address, backlog=0), socket.socket() as first:
        first.connect(address)
        while True:
            pass


def _spin(address: tuple[str, int]) -> None:
    """Connect and look busy; back when the connection is refused."""
    with socket.socket() as link:
        link.setblocking(False)
        link.connect_ex(address)
        while link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != errno.ECONNREFUSED:
            pass


def _step(link: socket.socket) -> bool:
    try:
        link.sendall(STEP)
        return link.recv(1) == DONE
    except OSError:
        return False
