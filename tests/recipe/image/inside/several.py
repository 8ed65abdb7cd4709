"""Answers several requests of sizes with one import of vLLM.

`python several.py ARCHIVE REQUEST…`: one line each, the answer that `python ARCHIVE REQUEST` gives.
"""

import base64
import json
import os
import sys


def main() -> None:
    archive, *requests = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w")
    # vLLM logs to standard output.
    os.dup2(2, 1)
    sys.path[0:1] = [archive]
    from sizes import sizes  # type: ignore[import-not-found]

    for request in requests:
        print(json.dumps(sizes.answer(json.loads(base64.b64decode(request)))), file=out, flush=True)


if __name__ == "__main__":
    main()
