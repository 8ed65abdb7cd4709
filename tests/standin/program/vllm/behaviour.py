"""How this StandIn behaves; each name is one that a test's patch changes."""

# Harmless: what the head's log says at start.
GREETING = "plain"
# Drafted tokens are off by so many places: any but 0 makes acceptance collapse.
DRAFT_SHIFT = 0
# Ranks that end with an error, or do nothing, before the ranks meet.
FAIL_AT_START: tuple[int, ...] = ()
HANG_AT_START: tuple[int, ...] = ()
# The head's store drops what comes, as a cable that is out does; the ranks spin while they wait, as NCCL does.
DEAF_STORE = False
# The API accepts requests and never answers them.
HANG_COMPLETIONS = False
# The head ends after so many answers.
ANSWERS_BEFORE_DEATH = 1_000_000
