"""The command `fit`: what each GPU of a cluster would hold, before anything is started."""

import click

from launch.cli.columns import columns
from launch.cli.context import Context
from recipe.errors import Exit

_GIB, _MIB = 2**30, 2**20
_SOURCES = {
    "given": "with the bytes that you gave",
    "log": "with the bytes that the running group logged",
    "setting": "with the bytes that a setting gives the cache",
    "estimate": "a range: what vLLM takes beside weights and cache is only known once it has run",
}


@click.command()
@click.argument("cluster")
@click.option("--profile", metavar="P", help="another profile than the cluster's own")
@click.option("--image", metavar="REF", help="another image than the one that `hallmark image` names")
@click.option("--available", type=click.IntRange(min=1), metavar="BYTES", help="bytes for the cache of each GPU")
@click.option("--stage", is_flag=True, help="bring the image to the head first when it is not there")
@click.pass_obj
def fit(
    context: Context, cluster: str, profile: str | None, image: str | None, available: int | None, stage: bool
) -> int:
    """Predict weights, cache bytes per token and context pool of each GPU of CLUSTER.

    The vLLM that would run is asked on the head, without a GPU. Changes nothing but with --stage; exit 2 when it
    cannot fit.
    """
    from launch.ledger.sizes import of_cluster

    found = of_cluster(context.home, cluster, profile, image, available, stage, context.say)

    def text() -> str:
        first = found.gpus[0]
        rows = [("GPU", "WEIGHTS", "OF IT DRAFT", "CACHE BYTES A TOKEN", "POOL")]
        for gpu in found.gpus:
            per = gpu["bytes_per_token"]
            rows.append(
                (
                    f"{gpu['node']} rank {gpu['rank']}",
                    _size(gpu["weights_bytes"]),
                    _size(gpu["draft_bytes"]),
                    f"{per:,.0f}" if per else "-",
                    _pool(gpu["pool_tokens_range"]),
                )
            )
        pages = [("CACHE", "LAYERS", "BLOCK", "PAGE BYTES", "A TOKEN", "WINDOW")]
        for kind in first["caches"]:
            pages.append(
                (
                    f"{kind['layer']}{' of the draft' if kind['draft'] else ''}",
                    str(kind["layers"]),
                    str(kind["block_size"]),
                    f"{kind['page_bytes']:,}",
                    f"{kind['page_bytes'] / kind['block_size']:.1f}",
                    str(kind["window"] or "-"),
                )
            )
        lines = [columns(rows), "", columns(pages), ""]
        lines.append(f"requests of {found.max_model_len:,} tokens, cache type {found.cache_dtype}")
        lines.append(_SOURCES.get(found.source, "no pool: --available BYTES says how much the cache gets"))
        if found.measured.tokens is not None:
            lines.append(f"the running group logged {found.measured.tokens:,} tokens")
        if found.problem:
            lines.append(f"does not fit: {found.problem}")
        return "\n".join(lines)

    context.emit(found.to_json(), text)
    return int(Exit.NOT_DONE if found.problem else Exit.OK)


def _size(count: int) -> str:
    if not count:
        return "-"
    return f"{count / _GIB:.2f} GiB" if count >= _GIB else f"{count / _MIB:.1f} MiB"


def _pool(tokens: list[int] | None) -> str:
    if not tokens:
        return "-"
    return " to ".join(f"{count:,}" for count in dict.fromkeys(tokens)) + " tokens"
