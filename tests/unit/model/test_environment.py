"""What declarations take from the environment."""

from pathlib import Path

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.model import Settings, load_project
from hourline_core.model.environment import substitute
from tests.support.flights import SOURCE
from tests.support.project_files import write_project


def test_secrets_come_from_the_environment_and_are_never_shown(tmp_path: Path) -> None:
    options = "{security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: shop, sasl.password: '${PW}'}"
    text = f"kafka:\n  bootstrap: ${{KAFKA}}\n  options: {options}\nstorage_options: {{aws_secret_access_key: '${{PW}}'}}\n"
    folder = write_project(tmp_path, {"hourline.yaml": text, "sources/flights.yaml": SOURCE})
    project = load_project(folder, {"PW": "open sesame", "KAFKA": "kafka:9093"})
    assert project.settings.kafka.options["sasl.password"] == "open sesame"
    assert "sesame" not in repr(project) + str(project.settings)
    with pytest.raises(pydantic.ValidationError) as caught:
        Settings(storage_options={"key": ["open sesame"]})  # type: ignore[dict-item]  # the point of the test
    assert "sesame" not in str(caught.value)


@given(
    st.text(alphabet="ab${}:A"),
    st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True), st.text()),
)
def test_text_without_references_and_escaped_text_stay(text: str, environ: dict[str, str]) -> None:
    plain = text.replace("$", "")
    assert substitute(plain, environ) == plain
    assert substitute(text.replace("${", "$${"), environ) == text


@given(
    st.text(alphabet="ab {}$:", max_size=8),
    st.from_regex(r"[A-Z_][A-Z0-9_]{0,5}", fullmatch=True),
    st.text(alphabet="ab${:A", max_size=8),
    st.text(),
)
def test_a_reference_is_its_variable_or_its_default(before: str, name: str, default: str, value: str) -> None:
    before = before.replace("$", "")
    assert substitute(f"{before}${{{name}}}", {name: value}) == before + value
    assert substitute(f"{before}${{{name}:{default}}}", {name: value}) == before + value
    assert substitute(f"{before}${{{name}:{default}}}!", {}) == f"{before}{default}!"
