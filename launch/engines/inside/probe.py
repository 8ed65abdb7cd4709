"""Asks the server in this container for completions. Runs inside the pod with the image's own Python.

`ready`: two completions of ten tokens came back. `alive`: the same, or the engine's step counter moved meanwhile,
so that a server that is only busy is not taken for a dead one.
"""

import json
import os
import sys
import threading
import urllib.request

TOKENS = 10
STEPS = "vllm:iteration_tokens_total_count"

mode, port, model, seconds = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])
base = f"http://127.0.0.1:{port}"
headers = {"Content-Type": "application/json"}
if os.environ.get("VLLM_API_KEY"):
    headers["Authorization"] = f"Bearer {os.environ['VLLM_API_KEY']}"
answers: list[int | Exception] = []
# A proxy of the environment is for other machines.
ask = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def complete(number: int) -> None:
    body = {"model": model, "prompt": f"{number} is followed by", "max_tokens": TOKENS, "ignore_eos": True}
    request = urllib.request.Request(f"{base}/v1/completions", json.dumps(body).encode(), headers)
    try:
        with ask(request, timeout=seconds) as reply:
            answers.append(json.load(reply)["usage"]["completion_tokens"])
    except Exception as error:
        answers.append(error)


def steps() -> float | None:
    try:
        with ask(f"{base}/metrics", timeout=seconds) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(STEPS))
    except Exception:
        return None


before = steps() if mode == "alive" else None
threads = [threading.Thread(target=complete, args=(number,)) for number in (1, 2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if all(isinstance(answer, int) and answer >= TOKENS for answer in answers):
    sys.exit(0)
if before is not None and all(isinstance(answer, TimeoutError) for answer in answers):
    after = steps()
    if after is not None and after > before:
        sys.exit(0)
sys.exit(f"no completions: {answers}")
