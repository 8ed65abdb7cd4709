"""Whether the nodes of a cluster can run a plan: facts are looked at, checks are pure, and each says what to do."""
