"""Asks a group for one token again and again, to see for how long nobody answered.

Nobody is asked any more once somebody answered again: gates that follow count drafts, and want no other requests.
"""

import json
import threading
import time
import urllib.request

# Short beside the seconds that are measured, and long enough to take nothing from the ranks.
_PAUSE = 0.02
_SECONDS = 5.0


class Watch:
    """Asks in a thread of its own for the time of a `with` block, and then until an answer came or `patience` ended."""

    def __init__(self, url: str, model: str, patience: float = 10.0) -> None:
        self._url = f"{url}/v1/completions"
        self._body = json.dumps({"model": model, "prompt": "one two", "max_tokens": 1, "temperature": 0}).encode()
        self._patience = patience
        self._answers: list[float] = []
        self._gone = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._patience = 0.0
        before, ends = len(self._answers), time.monotonic() + self._patience
        while not self._ended.is_set() and len(self._answers) == before and time.monotonic() < ends:
            time.sleep(_PAUSE)
        self._ended.set()
        self._thread.join()

    @property
    def outage(self) -> float | None:
        """Seconds of the longest time between two answers, from the end of one to the end of the next; None without
        two."""
        pairs = zip(self._answers, self._answers[1:], strict=False)
        return max((after - before for before, after in pairs), default=None)

    def _ask(self) -> None:
        while not self._ended.is_set():
            request = urllib.request.Request(self._url, self._body, {"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(request, timeout=_SECONDS) as reply:
                    reply.read()
                self._answers.append(time.monotonic())
                if self._gone:
                    self._ended.set()
            except OSError as error:
                # One that is only slow is still there.
                refused = isinstance(getattr(error, "reason", error), ConnectionError)
                self._gone = self._gone or (bool(self._answers) and refused)
            self._ended.wait(_PAUSE)
