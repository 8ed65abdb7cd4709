"""`make demo`: prove a patched vLLM, refuse a bad patch that only shows as lost speed, and roll back.

Everything is done by the `hallmark` command as a user types it; this script only tells the story and adds up.
"""

import sys

from recipe.errors import HallmarkError
from scripts.demo import story, table


def main() -> int:
    """Run the story and print its table; returns the exit status."""
    try:
        told = story.tell()
    except KeyboardInterrupt:
        return 130
    except HallmarkError as error:
        print(f"demo: {error}", file=sys.stderr)
        return int(error.exit)
    table.show(told)
    return 0 if told.as_it_should_be() else 1


raise SystemExit(main())
