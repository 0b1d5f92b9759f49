"""What the models of the routes are made of: the two kinds, the fields that several have, and pages.

The models themselves stand beside their routes: they check requests and make the description of the API precise. The
answers mirror the values of `rota.app.results`; a test holds them to it. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, WithJsonSchema

__all__ = [
    "NO_NUL",
    "AnswerModel",
    "Duration",
    "Json",
    "Key",
    "Moment",
    "PageModel",
    "Positive",
    "Priority",
    "RequestModel",
    "SortedPageModel",
    "Text",
    "TypeName",
    "When",
    "an_example",
]

T = TypeVar("T")

Moment = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""ISO 8601, UTC."""
Json = Annotated[Any, WithJsonSchema({})]
"""Any JSON."""
NO_NUL = r"^[^\x00]*$"
"""No store keeps a NUL character."""
Text = Annotated[str, Field(min_length=1, max_length=255, pattern=NO_NUL)]
TypeName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$", max_length=64)]
Key = Annotated[str, Field(min_length=1, max_length=2_400, pattern=NO_NUL)]
Duration = Annotated[
    str | int | float,
    Field(description='Seconds, or a text like "30m" or "1h30m".', examples=["30m"]),
]
When = Annotated[
    str, Field(max_length=64, description="ISO 8601; without an offset, wall clock in the zone.", examples=["09:30"])
]
Priority = Annotated[int, Field(ge=0, le=10)]
Positive = Annotated[int, Field(ge=1, le=1_000_000)]


def an_example(**fields: JsonValue) -> ConfigDict:
    """The configuration of a model that shows itself by this example; what it leaves out and must be there is added."""
    return ConfigDict(json_schema_extra={"examples": [dict(fields)]})


class AnswerModel(BaseModel):
    """What goes out. Fields that are not described are a mistake."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class RequestModel(BaseModel):
    """What comes in. Unknown names are refused, and so is text where a number belongs."""

    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class PageModel(AnswerModel, Generic[T]):
    """One page of a list. A page may hold few items or none and yet have a cursor; only one without is the last."""

    items: list[T]
    cursor: str | None


class SortedPageModel(PageModel[T], Generic[T]):
    """One page of a list that can be sorted in other ways than it is kept."""

    looked_at: int | None = Field(
        description="How many were looked at and sorted, where there are more of them. Null: the order is that of all."
    )
