"""The base of all objects that are answered over HTTP."""

from pydantic import BaseModel, ConfigDict


class Described(BaseModel):
    """A model of which OpenAPI has the docstrings under the attributes as their descriptions."""

    model_config = ConfigDict(use_attribute_docstrings=True)
