"""A mistake in a key of a source names the key, what was got, and what is allowed."""

from pathlib import Path

import pytest

from tests.support.declaration_mistakes import LOWER, METRIC, SOURCE, UNCLOSED, mistakes

NEVER = "got a bound that nothing can exceed"
DURATIONS = "allowed are durations such as 30s, 90m, 2h, 1d, 1h 30m or PT2H"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("formt: json", "formt: is not a known key — did you mean 'format'?"),
        (
            "format: csv",
            "format: got 'csv', allowed are json, or a mapping of one of avro, protobuf, csv, text, json, such as avro: {schema: orders.avsc}",
        ),
        ("clock: walls", "clock: got 'walls', allowed are event_time, wall — did you mean 'wall'?"),
        ("idle: 59s", "idle: got 59s, allowed is at least 1m"),
        ("idle: 5m\nclock: wall", "idle: got it with clock: wall, allowed with clock: event_time only"),
        (
            "findings: {rejected: 1}",
            "findings.rejected.above: got 1, which no share is above: allowed is a share from 0 to below 1, such as 0.05",
        ),
        ("findings: {rejected: .nan}", "findings.rejected.above: got '.nan', allowed is a number"),
        ("findings: {rejected: fial}", "findings.rejected.above: got 'fial', allowed is a number"),
        ("findings: {silence: 5s}", "findings.silence.after: got 5s, allowed is at least 1m"),
        (
            "findings: {silence: {severity: of}}",
            "findings.silence.severity: got 'of', allowed are fail, warn, off — did you mean 'off'?",
        ),
        ("findings: {new_reason: 3}", "findings.new_reason: got '3', allowed are fail, warn, off"),
        (
            "findings: {remembered_ids: 4}",
            "findings.remembered_ids.above: got '4', allowed is a size such as 512m or 2g",
        ),
        ("findings: {silent: 1h}", "findings.silent: is not a known key — did you mean 'silence'?"),
        (
            "findings: {duplicates: 0.1}",
            f"findings.duplicates: {NEVER}: the source declares no id, so no duplicate is recognised; leave it out",
        ),
        (
            "findings: {taken_by_none: fail}",
            f"findings.taken_by_none: {NEVER}: the source declares no branch, so it takes every record; leave it out",
        ),
        (
            "findings: {held_clock: 1h}\nclock: wall",
            f"findings.held_clock: {NEVER}: with clock: wall, no record holds the clock; leave it out",
        ),
        (
            "findings: {idle_partition: 1h}",
            f"findings.idle_partition: {NEVER}: the source declares no idle: silent_partition has the bound; leave it out",
        ),
        (
            "findings: {silent_partition: 1h}\nidle: 5m",
            f"findings.silent_partition: {NEVER}: no partition holds the clock without records: idle_partition has the "
            "bound; leave it out",
        ),
        ("skew: -1s", f"skew: got '-1s', {DURATIONS}"),
        ("grace: soon", f"grace: got 'soon', {DURATIONS}"),
        ("grace: -1h", f"grace: got '-1h', {DURATIONS}"),
        ("grace: 3600", f"grace: got '3600', {DURATIONS}"),
        ("grace: 99999999999d", "grace: got '99999999999d', which is too long: allowed are at most 36500d"),
        ("grace: 36501d", "grace: got '36501d', which is too long: allowed are at most 36500d"),
        ("partitions: 0", "partitions: got '0', allowed is a whole number from 1"),
        ("retention: ever", f"retention: got 'ever', {DURATIONS}, or forever"),
        ("retention: 0s", "retention: got '0s', allowed is at least 1m, or forever"),
        ("partitions: two", "partitions: got 'two', allowed is a whole number"),
        (
            "latest: 2026-01-01",
            "latest: got '2026-01-01', allowed are points in time with their offset from UTC, such as 2026-01-31T00:00:00Z",
        ),
        (
            "latest: 1960-01-01T00:00:00Z\nearliest: 1970-01-01T00:00:00Z",
            "latest: got 1960-01-01T00:00:00+00:00, allowed is a time after earliest, 1970-01-01T00:00:00+00:00",
        ),
        ("where: upper(a", f"where: got 'upper(a', {UNCLOSED}"),
        (
            "explode: split(a, ' ')",
            "explode: got 'split(a, ' ')', allowed is one `name: expression`, such as `item: items`: "
            "give its elements a name, as in `a_name: split(a, ' ')`",
        ),
        (
            "explode: {x: a, y: b}",
            "explode: got 2 names, allowed is one `name: expression`, such as `item: items`; "
            "for two arrays, explode one, such as arrays_zip(a, b)",
        ),
        (
            "explode: {A: b}",
            "explode.A: got the name 'A', allowed is each name once (upper and lower case are the same): see fields.a",
        ),
        ("derived: [a]", "derived: got a list, allowed is a mapping, `name: value`"),
        (
            "derived: {A: b}",
            "derived.A: got the name 'A', allowed is each name once (upper and lower case are the same): see fields.a",
        ),
        (
            "derived: {_Hourline_counts: b}",
            "derived._Hourline_counts: got the name '_Hourline_counts', "
            "allowed are names that do not begin with _hourline_, as Hourline's own columns do",
        ),
        (
            "derived: {1st: b}",
            "derived.1st: got the name '1st', "
            "allowed are letters from a to z and A to Z, digits and _, not starting with a digit",
        ),
        (f"name: {'n' * 64}", "name: got a name of 64 characters, allowed are 63"),
        ("name: Flights", f"name: got the name 'Flights', {LOWER}"),
        ("id: ${ID}", "id: the environment has no variable ID: set it, or give a default, ${ID:default}"),
        ("id: ${1D}", "id: got '${1D}', allowed are ${NAME} and ${NAME:default}; write $${ for a plain ${"),
        ("volume: {min: 5, max: 3}", "volume.min: got 5, allowed is a number up to max, 3"),
        ("volume: {min: -1}", "volume.min: got '-1', allowed is a whole number from 1"),
        ("volume: {late: 5}", "volume.late: got 5, allowed is a share from 0 to below 1, such as 0.05"),
        ("volume: {rejected: -0.1}", "volume.rejected: got -0.1, allowed is a share from 0 to below 1, such as 0.05"),
        (
            "volume: {late: 1}",
            "volume.late: got 1, which no share is above, allowed is a share from 0 to below 1, such as 0.05",
        ),
        ("volume: {min: 0}", "volume.min: got '0', allowed is a whole number from 1"),
        ("volume: {duplicates: few}", "volume.duplicates: got 'few', allowed is a number"),
        ("volume: {silence: on}", "volume.silence: got 'on', allowed are fail, warn, off"),
        ("volume: {minimum: 5}", "volume.minimum: is not a known key — did you mean 'min'?"),
        ("topic: u", "topic: got the key a second time, allowed is once: see line 1"),
    ],
)
def test_source_keys(tmp_path: Path, line: str, said: str) -> None:
    found = mistakes(tmp_path, {"sources/s.yaml": SOURCE + line + "\n", "metrics/m.yaml": METRIC})
    # A source of another name leaves its metric without one.
    assert [mistake for mistake in found if mistake.startswith("sources/")] == [f"sources/s.yaml:4: {said}"]


@pytest.mark.parametrize(
    ("event_time", "said"),
    [
        ("", "event_time: got nothing, allowed is a field or an expression over the fields"),
        ("[a]", "event_time: got a list, allowed is a mapping with the keys expression, encoding, zone"),
        ("{encoding: iso}", "event_time.expression: is missing"),
        (
            "{expression: a, encoding: local}",
            "event_time.encoding: got the encoding 'local' without a zone, allowed is local with one, such as zone: America/New_York",
        ),
        (
            "{expression: a, zone: Europe/Berlin}",
            "event_time.zone: got a zone with the encoding 'iso', allowed is a zone with encoding: local only",
        ),
        (
            "{expression: a, encoding: local, zone: Amerika/New_York}",
            "event_time.zone: got 'Amerika/New_York', allowed are IANA time zones, such as America/New_York — did you mean 'America/New_York'?",
        ),
        (
            "{expression: a, encoding: epoch_second}",
            "event_time.encoding: got 'epoch_second', allowed are iso, epoch_seconds, epoch_milliseconds, local — did you mean 'epoch_seconds'?",
        ),
    ],
)
def test_event_times(tmp_path: Path, event_time: str, said: str) -> None:
    source = f"topic: t\nfields: {{a: string}}\nevent_time: {event_time}\n"
    assert mistakes(tmp_path, {"sources/s.yaml": source}) == [f"sources/s.yaml:3: {said}"]
