"""The parts of docs/patches.md about what is no patch: what is not carried, and where documents and sources differ."""

from recipe.catalogue.compile import PATCHES
from recipe.config import source
from recipe.config.fields import Text
from recipe.config.models import Model
from scripts.pages.text import table

_NOT_CARRIED = """\
## What is not carried

Asked for in one of the documents that these patches answer, and left out.
"""
_DISAGREEMENTS = """\
## Where documents and sources disagree

Three documents asked for these patches: the reports vllm-project/vllm#47648 (H200) and vllm-project/vllm#52447 (GB10),
and a third party's recipe for two DGX Sparks, "stage D". Where they differ from the released sources, the sources
were followed.
"""


class NotCarried(Model):
    """One thing that is no patch."""

    what: Text
    why: Text
    instead: Text


class Disagreement(Model):
    """One statement of a document, and what the released sources say."""

    document: Text
    says: Text
    sources: Text


class _NotCarried(Model):
    rows: tuple[NotCarried, ...]


class _Disagreements(Model):
    rows: tuple[Disagreement, ...]


def sections() -> str:
    """Both parts as Markdown. Errors: ConfigError with every mistake in the data."""
    left_out = source.load(PATCHES / "notes" / "not-carried.yaml").validate(_NotCarried).rows
    differ = source.load(PATCHES / "notes" / "disagreements.yaml").validate(_Disagreements).rows
    return "\n".join(
        (
            _NOT_CARRIED,
            table(("what", "why", "instead"), [(row.what, row.why, row.instead) for row in left_out]),
            _DISAGREEMENTS,
            table(("document", "says", "the released sources"), [(r.document, r.says, r.sources) for r in differ]),
        )
    )
