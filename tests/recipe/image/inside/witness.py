"""Starts the real vLLM of this interpreter on one rank, whose log says what its cache holds.

`python witness.py MODEL`
"""

import sys


def main() -> None:
    from vllm import LLM

    LLM(model=sys.argv[1], dtype="float32", enforce_eager=True, max_model_len=1024)


if __name__ == "__main__":
    main()
