"""Exports the models as JSON Schema for editors; `python -m recipe.config.schema` writes configs/schema/."""

import json
from pathlib import Path

from recipe.config.models import Cluster, Hardware, Model, Profile, Support
from recipe.config.paths import CHECKOUT

MODELS: dict[str, type[Model]] = {"profile": Profile, "cluster": Cluster, "hardware": Hardware, "support": Support}
FOLDER = CHECKOUT / "configs" / "schema"


def texts() -> dict[str, str]:
    """The content of every schema file by its name."""
    return {f"{name}.json": _schema(model) for name, model in MODELS.items()}


def write(folder: Path) -> list[Path]:
    """Write the schema files that differ from what the models say; returns what was written."""
    written = []
    for name, text in texts().items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def _schema(model: type[Model]) -> str:
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(by_alias=True)}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for path in write(FOLDER):
        print(f"wrote {path}")
