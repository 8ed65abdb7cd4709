"""`vllm serve`: one rank as a main process with one worker.

The head ends at once on SIGTERM and leaves nothing; a headless rank takes a moment. Either leaves its worker behind
when it is killed, and neither looks at what the other does.
"""

import argparse
import os
import signal
import socket
import sys
import time

from . import behaviour, worker
from .api import Api

_HEADLESS_STOP_SECONDS = 0.08


def main() -> None:
    """Run the rank that the arguments describe."""
    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--served-model-name", default="standin")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--max-model-len", type=int, default=1024)
    parser.add_argument("--nnodes", type=int, default=1)
    parser.add_argument("--node-rank", type=int, default=0)
    parser.add_argument("--master-addr", default="127.0.0.1")
    parser.add_argument("--master-port", type=int, default=29501)
    parser.add_argument("--headless", action="store_true")
    Rank(parser.parse_args()).run()


class Rank:
    """One rank of the group."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.link, self.child = socket.socket(), 0

    def run(self) -> None:
        options = self.options
        worker.outlive()
        signal.signal(signal.SIGTERM, lambda number, frame: self.end())
        print(f"INFO StandIn rank {options.node_rank}: {behaviour.GREETING}", flush=True)
        if options.node_rank in behaviour.FAIL_AT_START:
            print("ERROR RuntimeError: StandIn was told to fail at start", flush=True)
            sys.exit(1)
        if options.node_rank in behaviour.HANG_AT_START:
            signal.pause()
        self._fork()
        if self.link.recv(1) != worker.READY:
            print("ERROR RuntimeError: the worker ended while the ranks met", flush=True)
            sys.exit(1)
        if options.headless:
            os.waitpid(self.child, 0)
            print("ERROR Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down.", flush=True)
            sys.exit(0)
        api = Api((options.host, options.port), options.served_model_name, self.step, self.end)
        print("INFO: Application startup complete.", flush=True)
        api.serve_forever()

    def step(self) -> bool:
        """One step on all ranks; False when a worker is lost, also the head's own."""
        try:
            self.link.sendall(worker.STEP)
            return self.link.recv(1) == worker.DONE
        except OSError:
            return False

    def end(self) -> None:
        """End this rank as SIGTERM does: status 0, nothing of it left."""
        if self.child:
            os.kill(self.child, signal.SIGKILL)
        if self.options.headless:
            time.sleep(_HEADLESS_STOP_SECONDS)
        os._exit(0)

    def _fork(self) -> None:
        options = self.options
        self.link, theirs = socket.socketpair()
        self.child = os.fork()
        if self.child:
            theirs.close()
            return
        self.link.close()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        worker.outlive()
        address = (options.master_addr, options.master_port)
        try:
            if options.headless:
                worker.other(theirs, address)
            else:
                worker.head(theirs, address, options.nnodes)
        except OSError as error:
            print(f"ERROR {type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(1)
