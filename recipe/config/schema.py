"""The models of configuration files as JSON Schema, for editors; `python -m scripts.pages` writes configs/schema/."""

import json

from pydantic import BaseModel

from recipe.config.models import ApiRoutes, Cluster, Hardware, Profile, Support

MODELS: dict[str, type[BaseModel]] = {
    "profile": Profile,
    "cluster": Cluster,
    "hardware": Hardware,
    "support": Support,
    "api": ApiRoutes,
}


def text(model: type[BaseModel]) -> str:
    """The schema file of one model."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema(by_alias=True)}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
