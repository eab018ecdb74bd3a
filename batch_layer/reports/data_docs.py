"""Writes Great Expectations' Data Docs page of one audit, which opens offline.

The page renderer and the templates of tables and sections are Great Expectations' own. Its page template is not used:
it loads Bootstrap, jQuery, fonts and a logo from five hosts, links to pages that are not there, and folds with
JavaScript. Its view also puts values into the page unescaped.
"""

import json
from collections.abc import Callable
from datetime import datetime
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

from great_expectations import __version__ as gx_version
from great_expectations.core.expectation_validation_result import (
    ExpectationSuiteValidationResult,
    ExpectationValidationResult,
)
from great_expectations.expectations.registry import list_registered_expectation_implementations
from great_expectations.render.components import RenderedStringTemplateContent, RenderedTableContent
from great_expectations.render.renderer.content_block.validation_results_table_content_block import (
    ValidationResultsTableContentBlockRenderer,
)
from great_expectations.render.renderer.page_renderer import ValidationResultsPageRenderer
from great_expectations.render.view.view import DefaultJinjaPageView
from great_expectations.util import convert_to_json_serializable
from jinja2 import ChoiceLoader, FileSystemLoader, pass_context
from jinja2.runtime import Context

from batch_layer.reports.site import TEMPLATES, moment_text, shorten, write
from hourline_core.ledger.report_pages import page_path

SHOWN_ROWS = 20
"""The maximum number of failing rows that are shown of an expectation."""

_STATUSES = ("error", "failed", "warning", "passed")

_WHOLE_TABLE = "Table-Level Expectations"


def write_page(
    site: Path,
    publication: int,
    name: str,
    result: ExpectationSuiteValidationResult,
    title: str,
    hours: str,
    audited: datetime,
) -> Path:
    """Write the page of one audit to ``runs/<publication>/<name>.html`` below ``site``, and return its path.

    ``title`` names what was audited, ``hours`` says of when, ``audited`` (UTC) is the time of the audit. A result whose
    ``expectation_config.meta`` has an ``hour`` is shown with it, and can be linked to. Raises OSError.
    """
    ordered = ExpectationSuiteValidationResult(
        success=bool(result.success),
        results=sorted(result.results, key=_failures_first),
        suite_name=result.suite_name,
        suite_parameters=result.suite_parameters,
        statistics=result.statistics,
        meta=result.meta,
    )
    sections = []
    if ordered.results:
        renderer = ValidationResultsPageRenderer(
            column_section_renderer={
                "class_name": "ValidationResultsColumnSectionRenderer",
                "table_renderer": {"class_name": ExpectationRows.__name__, "module_name": __name__},
            }
        )
        document = renderer.render(ordered)
        document.sections = document.sections[
            1:
        ]  # without its overview, whose links lead nowhere: Hourline's page has its own
        worst = {_section(item): _STATUSES[_rank(item)] for item in reversed(ordered.results)}
        document.sections.sort(key=lambda section: _STATUSES.index(worst[section.section_name]))
        sections = [(section.section_name, worst[section.section_name]) for section in document.sections]
        body = _view().render(document, template="data_docs_sections.j2")  # type: ignore[no-untyped-call]
    else:
        body = ""
    statuses = [_status(item)[0] for item in ordered.results]
    page = (
        _view()
        .env.get_template("data_docs_page.html")
        .render(
            title=title,
            hours=hours,
            audited=moment_text(audited),
            passed=statuses.count("passed"),
            failed=statuses.count("failed") + statuses.count("error"),
            warned=statuses.count("warning"),
            sections=sections,
            body=body,
            gx_version=gx_version,
        )
    )
    return write(site, page_path(publication, name), page)


class ExpectationRows(ValidationResultsTableContentBlockRenderer):
    """A table with a row for each expectation. Below one that failed are its failing rows with their keys."""

    @classmethod
    def _get_content_block_fn(cls, expectation_type: str, expectation_config: Any = None) -> Callable[..., Any]:
        # An expectation that Great Expectations cannot render is shown by its name, so that the report still appears.
        known = expectation_type in list_registered_expectation_implementations()
        rendered = super()._get_content_block_fn(expectation_type, expectation_config) if known else None

        def row(
            configuration: Any = None, result: Any = None, runtime_configuration: Any = None, **kwargs: Any
        ) -> list[list[Any]]:
            told: list[Any] = []
            observed: list[Any] = ["--"]
            if rendered:
                summary = _summary(result)
                ((_, sentence, *observed),) = rendered(
                    configuration=configuration, result=summary, runtime_configuration=runtime_configuration, **kwargs
                )
                told = sentence if isinstance(sentence, list) else [sentence]
            else:
                told = [_text(f"{expectation_type} {result.expectation_config.kwargs}")]
            return [[_status_cell(result), [*_marks(result), *told, *_failing_rows(result)], *observed]]

        return row


class OfflineView(DefaultJinjaPageView):
    """Renders with Hourline's templates before Great Expectations' own, and escapes all text, which those do not."""

    def __init__(self) -> None:
        super().__init__()
        self.env.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), self.env.loader])  # type: ignore[list-item]

    def render_string_template(self, template: Any) -> Any:
        if isinstance(template, dict):
            # Great Expectations turns newlines into line breaks itself, and the values are escaped here.
            text = escape(str(template.get("template", "")).replace("<br>", "\n"), quote=False)
            template = {**template, "template": text}
        return super().render_string_template(template)  # type: ignore[no-untyped-call]

    @pass_context
    def render_content_block(
        self,
        jinja_context: Context,
        content_block: Any,
        index: Any = None,
        content_block_id: Any = None,
        render_to_markdown: bool = False,
    ) -> Any:
        if content_block is None:
            return ""
        if isinstance(content_block, list):
            content_block = [part if _is_block(part) else escape(str(part)) for part in content_block]
        elif not _is_block(content_block):
            return escape(str(content_block))
        return super().render_content_block(jinja_context, content_block, index, content_block_id, render_to_markdown)


@cache
def _view() -> OfflineView:
    return OfflineView()  # which compiles each template once


def _summary(result: ExpectationValidationResult) -> ExpectationValidationResult:
    """``result`` in plain Python types, because NumPy's numbers break Great Expectations' renderers.

    The lists of what failed are left out. Great Expectations' own table of those groups the keys by value without a
    limit, and shows a query on a data frame that is gone.
    """
    lists = ("partial_unexpected_", "unexpected_list", "unexpected_index_")
    shown = {key: value for key, value in (result.result or {}).items() if not key.startswith(lists)}
    return ExpectationValidationResult(
        success=result.success,
        expectation_config=result.expectation_config,
        result=json.loads(json.dumps(convert_to_json_serializable(shown))),
        exception_info=result.exception_info,
    )


def _status(result: ExpectationValidationResult) -> tuple[str, str]:
    """A word with its style."""
    if result.success:
        return "passed", "success"
    information = result.exception_info or {}
    if information.get(
        "raised_exception", any(isinstance(one, dict) and one.get("raised_exception") for one in information.values())
    ):
        return "error", "danger"
    return ("warning", "warning") if _severity(result) == "warning" else ("failed", "danger")


def _severity(result: ExpectationValidationResult) -> str:
    severity = result.expectation_config.severity if result.expectation_config else "critical"
    return str(getattr(severity, "value", severity))


def _rank(result: ExpectationValidationResult) -> int:
    return _STATUSES.index(_status(result)[0])


def _failures_first(result: ExpectationValidationResult) -> tuple[int, str]:
    return _rank(result), _hour(result) or ""


def _section(result: ExpectationValidationResult) -> str:
    """The name of the section that Great Expectations puts this one in."""
    config = result.expectation_config
    return str(config.kwargs.get("column", _WHOLE_TABLE)) if config else _WHOLE_TABLE


def _hour(result: ExpectationValidationResult) -> str | None:
    meta = result.expectation_config.meta if result.expectation_config else None
    return str(meta["hour"]) if meta and meta.get("hour") else None


def _status_cell(result: ExpectationValidationResult) -> list[RenderedStringTemplateContent]:
    word, style = _status(result)
    return [_text(word, "badge", f"badge-{style}")]


def _marks(result: ExpectationValidationResult) -> list[RenderedStringTemplateContent]:
    marks = []
    if hour := _hour(result):
        marks.append(_text(hour, "badge", "badge-hour", id=f"h{hour}"))
    if _severity(result) != "critical":
        marks.append(_text("warns only", "badge", "badge-mild"))
    return marks


def _failing_rows(result: ExpectationValidationResult) -> list[RenderedTableContent | RenderedStringTemplateContent]:
    """The rows that Great Expectations found unexpected: the keys of each, then the values that failed."""
    if result.success or not result.result:
        return []
    rows = result.result.get("unexpected_index_list") or result.result.get("partial_unexpected_index_list") or []
    rows = [row if isinstance(row, dict) else {"row": row} for row in rows]
    if not rows:
        values = result.result.get("unexpected_list") or result.result.get("partial_unexpected_list") or []
        rows = [{"value": value} for value in values]
    if not rows:
        return []
    keys = [key for key in result.result.get("unexpected_index_column_names") or [] if key in rows[0]]
    columns = keys + [column for column in rows[0] if column not in keys]
    table = RenderedTableContent(
        table=[[shorten(row.get(column)) for column in columns] for row in rows[:SHOWN_ROWS]],
        header_row=[str(column) for column in columns],
        styling={"body": {"classes": ["table", "table-sm", "table-bordered", "failing"]}},
    )
    count = result.result.get("unexpected_count") or len(rows)
    more = [_text(f"{count - SHOWN_ROWS:,} more rows are not shown", "more")] if count > SHOWN_ROWS else []
    return [table, *more]


def _text(text: str, *classes: str, **attributes: str) -> RenderedStringTemplateContent:
    # As a parameter, which is never taken for a template.
    attributes = {name: escape(value) for name, value in attributes.items()}
    styling = {"classes": list(classes), "attributes": attributes}
    return RenderedStringTemplateContent(
        string_template={"template": "$text", "params": {"text": text}, "styling": styling}
    )


def _is_block(part: Any) -> bool:
    return isinstance(part, dict) and "content_block_type" in part
