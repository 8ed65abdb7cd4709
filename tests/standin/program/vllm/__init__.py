"""StandIn: what the tests of groups run in place of vLLM; the same arguments, endpoints and faults, in little time."""

__version__ = "0.32.0"
