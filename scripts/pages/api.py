"""docs/api.md: what vLLM's API asks a key for."""

from recipe.config.load import load_api
from recipe.config.paths import CHECKOUT
from scripts.pages.text import generated, table

_INTRO = """\
vLLM asks for the key (`VLLM_API_KEY`) only where a path begins with one of its guarded prefixes. Everything else
answers anybody who reaches the port. So bind the API to loopback or to the fabric with a proxy in front that lets
`/v1` through, or let a firewall say who reaches it."""
_KINDS = {"model": "runs the model", "changes": "changes the server", "tells": "tells"}


def page() -> str:
    """The page as text."""
    routes = load_api(CHECKOUT).value
    guards = [
        (", ".join(f"`{it}`" for it in row.releases), ", ".join(f"`{it}`" for it in row.prefixes), row.source)
        for row in routes.guarded
    ]
    rows = [
        (
            f"`{route.path}`",
            _KINDS[route.kind],
            route.does,
            ", ".join(f"`{it}`" for it in route.releases) or "all that were read",
            f"`{route.unless_flag}: true`" if route.unless_flag else "",
        )
        for route in routes.open
    ]
    return "\n".join(
        [
            generated("What an API key guards", "configs/api.yaml", _INTRO),
            table(("vLLM", "guarded", "source"), guards),
            "Open although there is a key, on a server that generates text:\n",
            table(("path", "kind", "what it does", "vLLM", "taken away by"), rows),
        ]
    )
