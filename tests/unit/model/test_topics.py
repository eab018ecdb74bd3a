"""Which topics a source reads, and which topics two sources share."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hourline_core.errors import DeclarationError
from hourline_core.model import Source, load_project
from hourline_core.model.topics import Topic, TopicPattern, matches, names_of, shared_topic
from tests.support.project_files import write_project

REST = "fields: {a: int, at: timestamp}\nevent_time: at\n"

names = st.text("ab", min_size=1, max_size=3)
topics = names | st.lists(names, min_size=1, max_size=3, unique=True).map(tuple)
patterns = st.sampled_from(["a", "a.*", "[ab]{2}", "b|aa"]).map(lambda pattern: TopicPattern(pattern=pattern))


def declared(folder: Path, **sources: str) -> dict[str, Source]:
    files = {f"sources/{name}.yaml": f"topic: {topic}\n{REST}" for name, topic in sources.items()}
    return dict(load_project(write_project(folder, {"hourline.yaml": "", **files})).sources)


def test_a_source_names_one_topic_or_several_or_a_pattern(tmp_path: Path) -> None:
    sources = declared(tmp_path, one="2024", several="[a, b]", pattern='{pattern: "clicks_.*"}')
    assert sources["one"].topic == "2024"
    assert sources["several"].topic == ("a", "b")
    assert sources["pattern"].topic == TopicPattern(pattern="clicks_.*")


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("[]", "got a list, allowed are a name, a list of names, or {pattern: …}"),
        ("[a, a]", "got a topic twice"),
        ("[a, b/c]", "got 'b/c', allowed are up to 249 letters"),
        ("[a, {b: c}]", "got a list, allowed are a name"),
        ("{pattern: '('}", "got '(', allowed is a regular expression: missing )"),
        ("{pattern: '(?P<x>a)'}", "got '(?P<x>a)', allowed is a regular expression without names of groups"),
        ("{patern: a}", "got a mapping, allowed are a name"),
        ("..", "got '..'"),
    ],
)
def test_other_topics_are_refused_with_their_line(tmp_path: Path, topic: str, said: str) -> None:
    with pytest.raises(DeclarationError, match=re.escape(f"sources/s.yaml:1: topic: {said}")):
        declared(tmp_path, s=topic)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ("[a, clicks]", "clicks", "clicks"),
        ("clicks", '{pattern: "c.*"}', "clicks"),
        ('{pattern: "c.*"}', '{pattern: "c.*"}', "/c.*/"),
    ],
)
def test_a_topic_of_two_sources_is_refused_with_both_lines(tmp_path: Path, one: str, other: str, shared: str) -> None:
    with pytest.raises(DeclarationError) as refused:
        declared(tmp_path, first=one, second=other)
    assert f"sources/second.yaml:1: topic: got '{shared}'" in str(refused.value)
    assert "sources/first.yaml:1" in str(refused.value)


@given(topics | patterns, topics | patterns)
def test_two_sources_share_a_topic_if_one_of_them_names_what_both_read(one: Topic, other: Topic) -> None:
    named = {name for name in (*names_of(one), *names_of(other)) if matches(one, name) and matches(other, name)}
    shared = shared_topic(one, other)
    assert shared in named if named else (shared is not None) == (one == other)
    assert (shared is None) == (shared_topic(other, one) is None)
