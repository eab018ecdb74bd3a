"""Every mistake in a declaration is one line: file, line, what was got, what is allowed."""

from pathlib import Path

import pytest

from hourline import load_project
from hourline_core.errors import DeclarationError, UsageError

SOURCE = "topic: t\nfields: {a: string, b: int}\nevent_time: a\n"
METRIC = "source: s\nmeasures: {n: count}\n"
MEASURES = "allowed are count, sum(x), min(x), max(x), first(x), last(x), mean(x), variance(x), stddev(x), var_pop(x), stddev_pop(x), quantile(x, 0.99), distinct(x), top(x, 10), any(x), every(x), ratio(a, b), rate(a); all but ratio and rate also with `where` and a condition"
LARGEST = "the largest values, which no measure keeps; allowed are max(x), the largest one, and top(x, 10), the most frequent ones"
TYPES = "allowed are string, int, long, float, double, boolean, timestamp, date, decimal(p,s), struct<a: string, …>, array<…> and map<…, …>"
LOWER = "allowed are lower-case letters from a to z, digits and _, starting with a letter"
DURATIONS = "allowed are durations such as 30s, 90m, 2h, 1d, 1h 30m or PT2H"
UNCLOSED = "whose brackets or quotes do not close (between { } and [ ], YAML wants text with a comma in quotes)"


def mistakes(folder: Path, files: dict[str, str | bytes]) -> list[str]:
    for name, text in {"hourline.yaml": "", "sources/s.yaml": SOURCE, "metrics/m.yaml": METRIC, **files}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DeclarationError) as caught:
        load_project(folder, {})
    return str(caught.value).splitlines()


def with_measure(text: str) -> str:
    return f"source: s\nmeasures:\n  n: count\n  x: {text}\n"


@pytest.mark.parametrize(
    ("measure", "said"),
    [
        ("mx(delay)", f"got 'mx(delay)', {MEASURES} — did you mean 'max(delay)'?"),
        ("SUM(a)", f"got 'SUM(a)', {MEASURES} — did you mean 'sum(a)'?"),
        ("AVG(a)", f"got 'AVG(a)', {MEASURES} — did you mean 'mean(a)'?"),
        ("std(a)", f"got 'std(a)', {MEASURES} — did you mean 'stddev(a)'?"),
        ("cuont", f"got 'cuont', {MEASURES} — did you mean 'count'?"),
        ("count()", f"got 'count()', {MEASURES} — did you mean 'count'?"),
        ("count(distinct)", "got 'distinct' without an argument, allowed is distinct(x) with a field or expression"),
        ("count(distinct a, b)", "got 'distinct(a, b)', allowed is distinct(x) with one argument"),
        (
            "count(a)",
            "got 'count(a)', allowed is count without an argument; to count the events that fulfil a condition, write `count where condition`",
        ),
        ("sum", "got 'sum' without an argument, allowed is sum(x) with a field or expression"),
        ("sum( )", "got 'sum' without an argument, allowed is sum(x) with a field or expression"),
        ("sum(a, b)", "got 'sum(a, b)', allowed is sum(x) with one argument"),
        ("sum((a)", f"got 'sum((a)', {UNCLOSED}"),
        ("sum(a) / count", f"got 'sum(a) / count', {MEASURES}"),
        ("latest(a)", f"got 'latest(a)', {MEASURES} — did you mean 'last(a)'?"),
        ("skew(a)", f"got 'skew(a)', {MEASURES}; or define it with a class in measures/skew.py"),
        ("all(a)", f"got 'all(a)', {MEASURES} — did you mean 'every(a)'?"),
        ("count_if(a, b)", "got 'count_if(a, b)', allowed is count_if(x) with one condition"),
        (
            "sum(a) where",
            "got 'sum(a) where', allowed is a condition after `where`, such as `count where delay > 15`",
        ),
        (
            "sum(a) FILTER (WHERE a > (b))",
            f"got 'sum(a) FILTER (WHERE a > (b))', {MEASURES} — did you mean 'sum(a) where a > (b)'?",
        ),
        ("", f"got nothing, {MEASURES}"),
        ("[a]", f"got a list, {MEASURES}"),
        ("{kind: sum}", f"got a mapping, {MEASURES}"),
        ("median()", "got 'quantile' without an argument, allowed is quantile(x, 0.99) with a field or expression"),
        ("percentile(a, 0.9)", f"got 'percentile(a, 0.9)', {MEASURES} — did you mean 'quantile(a, 0.9)'?"),
        ("percentile(a)", f"got 'percentile(a)', {MEASURES} — did you mean 'quantile(a, 0.99)'?"),
        ("quantile(a)", "got 'quantile(a)', allowed is quantile(x, 0.99), with a number from 0 to 1"),
        (
            "mode(a)",
            "got 'mode(a)', which cannot be merged from partial results "
            f"(the most frequent value of the whole need not be the most frequent one of any part; top(x, 1) keeps all counts); {MEASURES}",
        ),
        ("top(a)", "got 'top(a)', allowed is top(x, 10), with a number from 1 to 100"),
        ("top()", "got 'top' without an argument, allowed is top(x, 10) with a field or expression"),
        ("top_k(a, 5)", f"got 'top_k(a, 5)', {MEASURES} — did you mean 'top(a, 5)'?"),
        ("top_n(a)", f"got 'top_n(a)', {MEASURES} — did you mean 'top(a, 10)'?"),
        ("TOPK(a, 5)", f"got 'TOPK(a, 5)', {LARGEST}"),
        (
            "rate()",
            "got 'rate', allowed is rate(a) with the name of one measure of the metric, which may have a condition",
        ),
    ],
)
def test_measures(tmp_path: Path, measure: str, said: str) -> None:
    assert mistakes(tmp_path, {"metrics/m.yaml": with_measure(measure)}) == [f"metrics/m.yaml:4: measures.x: {said}"]


NAMES = "allowed is ratio(a, b) with the names of two measures of the metric; each of them may have a condition"


NAME = "allowed is rate(a) with the name of one measure of the metric, which may have a condition"


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        ("ratio(n)", f"got 'ratio(n)', {NAMES}"),
        ("ratio(n, sum(a))", f"got 'ratio(n, sum(a))', {NAMES}"),
        ("ratio(n, n) where a", f"got 'ratio(n, n) where a', {NAMES}"),
        ("ratio(n, m)", "got 'm', allowed is a measure of this metric that is no ratio or rate (there is: n)"),
        ("ratio(x, n)", "got 'x', allowed is a measure of this metric that is no ratio or rate (there is: n)"),
        ("rate(n, n)", f"got 'rate(n, n)', {NAME}"),
        ("rate(sum(a))", f"got 'rate(sum(a))', {NAME}"),
        ("rate(n) where a", f"got 'rate(n) where a', {NAME}"),
        ("rate(count)", "got 'count', allowed is a measure of this metric that is no ratio or rate (there is: n)"),
    ],
)
def test_ratios_and_rates(tmp_path: Path, ratio: str, said: str) -> None:
    (found,) = mistakes(tmp_path, {"metrics/m.yaml": with_measure(ratio)})
    assert found == f"metrics/m.yaml:4: measures.x: {said}"


@pytest.mark.parametrize(
    ("quotient", "operand", "allowed"),
    [
        ("ratio(n, y)", "any(b)", "a measure that is a number"),
        ("ratio(n, y)", "top(b, 10)", "a measure that is a number"),
        ("rate(y)", "mean(b)", "a count or a sum"),
    ],
)
def test_operands_that_do_not_suit_are_refused(tmp_path: Path, quotient: str, operand: str, allowed: str) -> None:
    (found,) = mistakes(tmp_path, {"metrics/m.yaml": with_measure(f"{quotient}\n  y: {operand}")})
    assert found == f"metrics/m.yaml:4: measures.x: got 'y', allowed is {allowed}; it is {operand}"


@pytest.mark.parametrize(
    ("quantile", "said"),
    [(number, "a number from 0 to 1, such as 0.99") for number in ("1.5", "-0.1", "nan")] + [("b", "a number")],
)
def test_quantiles(tmp_path: Path, quantile: str, said: str) -> None:
    found = mistakes(tmp_path, {"metrics/m.yaml": with_measure(f"quantile(a, {quantile})")})
    assert found == [f"metrics/m.yaml:4: measures.x.quantile: got '{quantile}', allowed is {said}"]


@pytest.mark.parametrize(
    ("limit", "said"),
    [(number, "a number from 1 to 100, such as 10") for number in ("0", "101", "-1")] + [("2.5", "a whole number")],
)
def test_limits(tmp_path: Path, limit: str, said: str) -> None:
    found = mistakes(tmp_path, {"metrics/m.yaml": with_measure(f"top(a, {limit})")})
    assert found == [f"metrics/m.yaml:4: measures.x.limit: got '{limit}', allowed is {said}"]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("strng", f"got 'strng', {TYPES} — did you mean 'string'?"),
        ("bigint", f"got 'bigint', {TYPES} — did you mean 'long'?"),
        ("binary", f"got 'binary', {TYPES}"),
        ("decimal", "got 'decimal', allowed is decimal(p,s), such as decimal(18,2)"),
        ("decimal(39,2)", "got 'decimal(39,2)', allowed is decimal(p,s) with p from 1 to 38 and s from 0 to p"),
        ("array<int", f"got 'array<int', {UNCLOSED}"),
        ("array<int, int>", "got 'array<int, int>', allowed is array<type>"),
        ("map<string>", "got 'map<string>', allowed is map<type, type>"),
        ("struct<>", "got 'struct<>', allowed is struct<name: type, …>"),
    ],
)
def test_field_types(tmp_path: Path, declared: str, said: str) -> None:
    source = f'topic: t\nfields:\n  a: string\n  x: "{declared}"\nevent_time: a\n'
    assert mistakes(tmp_path, {"sources/s.yaml": source}) == [f"sources/s.yaml:4: fields.x.type: {said}"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("größe", "allowed are letters from a to z and A to Z, digits and _, not starting with a digit"),
        ("kWh used", "allowed are letters from a to z and A to Z, digits and _, not starting with a digit"),
        ("record", "which means the Kafka record itself (record.key, record.timestamp, …)"),
        ("_hourline_x", "allowed are names that do not begin with _hourline_, as Hourline's own columns do"),
    ],
)
def test_a_field_that_cannot_have_its_name_is_told_of_the_key(tmp_path: Path, name: str, said: str) -> None:
    source = f"topic: t\nfields:\n  a: string\n  {name}: int\nevent_time: a\n"
    assert mistakes(tmp_path, {"sources/s.yaml": source}) == [
        f"sources/s.yaml:4: fields.{name}: got the name '{name}', {said}: "
        f"give the field another name, as in `a_name: {{type: …, key: {name}}}`"
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("formt: json", "formt: is not a known key — did you mean 'format'?"),
        ("format: csv", "format: got 'csv', allowed is json"),
        ("clock: walls", "clock: got 'walls', allowed are event_time, wall — did you mean 'wall'?"),
        ("idle: 59s", "idle: got 59s, allowed is at least 1m"),
        ("idle: 5m\nclock: wall", "idle: got it with clock: wall, allowed with clock: event_time only"),
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
            "latest: 1960-01-01T00:00:00Z",
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
        ("volume: {min: -1}", "volume.min: got '-1', allowed is a whole number from 0"),
        ("volume: {late: 5}", "volume.late: got 5, allowed is a share from 0 to 1, such as 0.05"),
        ("volume: {rejected: -0.1}", "volume.rejected: got -0.1, allowed is a share from 0 to 1, such as 0.05"),
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


@pytest.mark.parametrize(
    ("dimensions", "said"),
    [
        ("a", "dimensions: got 'a', allowed is a list or a mapping, such as [a]"),
        ("[a, a]", "dimensions.1: got 'a' again, allowed is each dimension once"),
        (
            "[tailNum]",
            "dimensions.0: got 'tailNum', allowed are field names in lower case and `name: expression`: give it a name, as in `a_name: tailNum`",
        ),
        (
            "[state]",
            "dimensions.0: got 'state', which Hourline uses itself: give it another name, as in `a_name: state`",
        ),
        ("[hour]", "dimensions.0: got 'hour', which each result has anyway: leave it out"),
        (
            "{hour: a}",
            "dimensions.hour: got the name 'hour', which Hourline uses itself: choose another than hour, layer, sequence, "
            "state; each result has its hour anyway",
        ),
        ("[[a]]", "dimensions.0: got a list, allowed are field names in lower case and `name: expression`"),
        ("[n]", "dimensions: got the name 'n', allowed is each name once"),
        ("{Big: a}", f"dimensions.Big: got the name 'Big', {LOWER}"),
        ("[{a__b: a}]", "dimensions.a__b: got the name 'a__b', allowed is one _ at a time"),
        (
            "{state: a}",
            "dimensions.state: got the name 'state', which Hourline uses itself: choose another than hour, layer, sequence, state",
        ),
        ("{d: ''}", "dimensions.d: got nothing, allowed is a Spark SQL expression"),
        ("{d: }", "dimensions.d: got nothing, allowed is text"),
    ],
)
def test_dimensions(tmp_path: Path, dimensions: str, said: str) -> None:
    (found,) = mistakes(tmp_path, {"metrics/m.yaml": f"source: s\ndimensions: {dimensions}\nmeasures: {{n: count}}\n"})
    line = 3 if dimensions == "[n]" else 2
    said = said.replace("dimensions: got the name 'n'", "measures.n: got the name 'n'")
    assert found.startswith(f"metrics/m.yaml:{line}: {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kafak: {}", "1: kafak: is not a known key — did you mean 'kafka'?"),
        ("kafka:\n  prot: 1", "2: kafka.prot: is not a known key — did you mean 'port'?"),
        ("kafka: {port: 99999}", "1: kafka.port: got '99999', allowed is a whole number up to 65535"),
        (
            "kafka: {bootstrap: localhost}",
            "1: kafka.bootstrap: got 'localhost', allowed is host:port, or several of them with commas between",
        ),
        (
            "kafka:\n  bootstrap: localhost:9092\n  port: 9092",
            "3: kafka.port: got both bootstrap and port, allowed is one: port is for Hourline's own Kafka, bootstrap for another",
        ),
        (
            "kafka: {options: {sasl.pasword: secret}}",
            "1: kafka.options.sasl.pasword: got the option 'sasl.pasword', which Hourline does not pass on — did you mean 'sasl.password'?",
        ),
        ("kafka: {options: {sasl.password: [secret]}}", "1: kafka.options.sasl.password: got a list, allowed is text"),
        ("spark: local", "1: spark: got 'local', allowed is a mapping with the keys master, driver_memory, config"),
        ("spark: {driver_memory: big}", "1: spark.driver_memory: got 'big', allowed is a size such as 512m or 2g"),
        (
            "spark: {config: {sql.x: 1}}",
            "1: spark.config.sql.x: got the key 'sql.x', allowed are Spark's own, which start with 'spark.'",
        ),
        ("workspace: [a]", "1: workspace: got a list, allowed is a path"),
        ("storage_options: secret", "1: storage_options: got text, allowed is a mapping, `name: value`"),
    ],
)
def test_settings(tmp_path: Path, text: str, said: str) -> None:
    assert mistakes(tmp_path, {"hourline.yaml": text}) == [f"hourline.yaml:{said}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1: the file is empty: declare a metric in it, or delete it"),
        ("# nothing\n", "1: the file is empty: declare a metric in it, or delete it"),
        ("- a\n", "1: got a list, allowed is a mapping, `key: value`"),
        ("a\n", "1: got text, allowed is a mapping, `key: value`"),
        (
            "source: s\nmeasures:\n\tn: count\n",
            "3: this is not YAML (found character '\\t' that cannot start any token): indent with spaces",
        ),
        (
            "source: s\nwhere: a: b\n",
            "2: this is not YAML (mapping values are not allowed here): put text in quotes that has ': ', ' #', or a special character at its start",
        ),
        (
            "source: s\n---\nsource: s\n",
            "2: this is not YAML (but found another document): write one document per file",
        ),
        (b"source: s\nwhere: \xff\n", "2: got the byte 0xff, allowed is text in UTF-8"),
        (b"source: s\nwhere: \x01\n", "2: got the control character '\\x01', allowed is printable text"),
        (
            "source: s\nmeasures: {n: count, n: count}\n",
            "2: measures.n: got the key a second time, allowed is once: see line 2",
        ),
        ("source: s\nmeasures: {n: count}\n? [a]\n: b\n", "3: got a list or mapping as a key, allowed is text"),
        (
            "source: s\nmeasures: &m {n: *m}\n",
            "2: measures.n: got an alias (*) for a value that contains it, allowed are aliases for others",
        ),
        (
            'source: s\nmeasures: {n: count}\n"new\\nline": x\n',
            "3: new line: is not a known key (there is: description, dimensions, expectations, history, measures, name, source, where, window)",
        ),
        ("source: s\nmeasures: {n: count}\nwhere: |\n  (a\n  > 1\n", f"3: where: got '(a > 1', {UNCLOSED}"),
        ("source: s\n", "1: measures: is missing"),
        ("source: s\nmeasures: {}\n", "2: measures: got nothing, allowed is at least one"),
        ("source: x\nmeasures: {n: count}\n", "1: source: got 'x', which is no source of this project (there is: s)"),
    ],
)
def test_files(tmp_path: Path, text: str | bytes, said: str) -> None:
    assert mistakes(tmp_path, {"metrics/m.yaml": text}) == [f"metrics/m.yaml:{said}"]


@pytest.mark.parametrize(
    "name", ["hours", "publications", "events_x", "x_final", "x_provisional", "x_staged", "x_states"]
)
def test_metric_names_that_hourline_uses(tmp_path: Path, name: str) -> None:
    (found,) = mistakes(tmp_path, {f"metrics/{name}.yaml": METRIC})
    assert found.startswith(
        f"metrics/{name}.yaml:1: name: got the name '{name}', which Hourline uses itself: choose another than drift, "
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "schedule: {cron: 99 * * * *}",
            "schedule.cron: got '99 * * * *', which never comes: allowed are minutes 0-59, ",
        ),
        ("schedule: {cron: H * * * *}", "schedule.cron: got 'H * * * *', allowed are the five fields of cron"),
        ("schedule: {maintenance: 0 0 31 2 *}", "schedule.maintenance: got '0 0 31 2 *', which never comes"),
        ("schedule: {timezone: localtime}", "schedule.timezone: got 'localtime', allowed are names such as UTC"),
        (
            "schedule: {alert: ./page.sh}",
            "schedule.alert: got './page.sh', allowed is a list of words, such as [./page.sh, --urgent]",
        ),
        ('schedule: {alert: [""]}', "schedule.alert: got a list with an empty first word or a NUL character"),
        (
            "schedule: {deadline: 9999999d}",
            "schedule.deadline: got '9999999d', which is too long: allowed are at most 36500d",
        ),
        (
            "airflow: {database: 'postgresql://u:p@ss@host/db'}",
            "airflow.database: got something else, allowed is postgresql://",
        ),
        (
            "airflow: {database: 'postgresql://u:p%ss@host/db'}",
            "airflow.database: got something else, allowed is postgresql://",
        ),
    ],
)
def test_schedules_that_airflow_could_not_follow(tmp_path: Path, line: str, said: str) -> None:
    (found,) = mistakes(tmp_path, {"hourline.yaml": f"{line}\n"})
    assert found.startswith(f"hourline.yaml:1: {said}")
    assert "ss@host" not in found


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    found = mistakes(
        tmp_path,
        {
            "hourline.yaml": "spark: {mastr: x}\n",
            "sources/s.yaml": "topic: {regex: t}\nfields: {a: strng}\n",
            "sources/two.yaml": "name: s2\n" + SOURCE.replace("t\n", "u\n", 1),
            "sources/three.yaml": SOURCE.replace("t\n", "u\n", 1),
            "metrics/again.yaml": "name: m\n" + METRIC,
            "metrics/x.yaml": "source: s3\nmeasures: {n: count}\n",
        },
    )
    assert [mistake.split(": got")[0] for mistake in found] == [
        "hourline.yaml:1: spark.mastr: is not a known key — did you mean 'master'?",
        "sources/s.yaml:1: topic",
        "sources/s.yaml:1: event_time: is missing",
        "sources/s.yaml:2: fields.a.type",
        "metrics/m.yaml:1",
        "sources/two.yaml:2: topic",
        "metrics/x.yaml:1: source",
    ]
    assert found[4] == "metrics/m.yaml:1: got the metric 'm' again, allowed is each name once: see metrics/again.yaml:1"
    assert found[5].startswith("sources/two.yaml:2: topic: got 'u', which source 'three' reads, too; allowed is one")


def test_no_source(tmp_path: Path) -> None:
    (tmp_path / "hourline.yaml").touch()
    with pytest.raises(
        DeclarationError,
        match=r"^sources: there is no source: write sources/NAME\.yaml, or see what `hourline init` writes",
    ):
        load_project(tmp_path, {})


def test_no_project(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no Hourline project, it has no hourline\.yaml: .* `hourline init`$"):
        load_project(tmp_path, {})
    with pytest.raises(UsageError, match=r"^there is no folder .*missing: name the project's folder with --project$"):
        load_project(tmp_path / "missing", {})


SIZES = "allowed are minutes, hours, days, weeks, months and years, such as 5m, 3h, 1 day or 1 month"


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("3", f"window.size: got '3', {SIZES}"),
        ("90s", f"window.size: got '90s', {SIZES}"),
        ("{every: 1h}", "window.size: is missing"),
        ("0h", f"window.size: got '0h', {SIZES}, of at least one minute and at most 100 years"),
        ("101 years", f"window.size: got '101 years', {SIZES}, of at least one minute and at most 100 years"),
        (
            "{size: 1h, every: 3h}",
            "window.every: got every '3h' with the size '1h', allowed is at most the size, so that each event is in a window",
        ),
        (
            "{size: 1 day, every: 1h}",
            "window.every: got every '1h' with the size '1 day', allowed are days or weeks for both; for 24 hours at each hour, the size is 24h",
        ),
        (
            "{size: 1 month, every: 1 week}",
            "window.every: got every '1 week' with the size '1 month', allowed are months or years for both",
        ),
        (
            "{size: 1001h, every: 1h}",
            "window.every: got every '1h' with the size '1001h', which puts an event into 1,001 windows; allowed are 1,000: let them start less often",
        ),
        (
            "{size: 3h, zone: Europe/Paris}",
            "window.zone: got the zone 'Europe/Paris' with the size '3h', allowed is a zone for days, weeks, months and years: minutes and hours are the same in every zone",
        ),
        (
            "{size: 1 day, zone: Europe/Pari}",
            "window.zone: got 'Europe/Pari', allowed are IANA time zones, such as America/New_York — did you mean 'Europe/Paris'?",
        ),
    ],
)
def test_windows_that_cannot_be_are_refused(tmp_path: Path, window: str, said: str) -> None:
    assert mistakes(tmp_path, {"metrics/m.yaml": f"{METRIC}window: {window}\n"}) == [f"metrics/m.yaml:3: {said}"]


def test_a_metric_over_another_one_names_what_that_has(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "metrics/over.yaml": "from: m\nmeasures: [m]\ndimensions:\n  - x\n",
        "metrics/nothing.yaml": "from: nm\n",
        "metrics/one.yaml": "from: two\n",
        "metrics/two.yaml": "from: one\n",
        "metrics/three.yaml": "from: two\n",
        "metrics/wrong.yaml": "from: m\nsource: s\n",
        "metrics/over_wrong.yaml": "from: wrong\n",
        "metrics/starts.yaml": "source: s\ndimensions: [window_start: a]\nmeasures: {n: count}\n",
        "metrics/over_starts.yaml": "from: starts\nwindow: 1 day\n",
        "metrics/over_nothing.yaml": "from: m\nmeasures: []\ndimensions: [b, b]\n",
        "metrics/shares.yaml": "source: s\nmeasures: {n: count, share: 'ratio(n, n)'}\n",
        "metrics/over_shares.yaml": "from: shares\nmeasures: [share]\n",
        "metrics/over_text.yaml": "from: m\nmeasures: n\n",
        "metrics/over_source.yaml": "source: over_starts\nmeasures: {n: count}\n",
        "metrics/sql.yaml": "sql: SELECT COUNT(*) AS x FROM m\n",
    }
    assert mistakes(tmp_path, files) == [
        "metrics/over_nothing.yaml:2: measures: got nothing, allowed is at least one",
        "metrics/over_nothing.yaml:3: dimensions.1: got 'b' again, allowed is each name once",
        "metrics/over_text.yaml:2: measures: got 'n', allowed is a list, such as [origin]",
        "metrics/wrong.yaml:2: source: is not a known key (there is: description, dimensions, from, measures, name, window)",
        "metrics/over_source.yaml:1: source: got 'over_starts', which is no source of this project: it is a metric, and a metric over it has `from: over_starts` in place of `source`",
        "metrics/sql.yaml:1: source: got 'm', which is no source of this project: it is a metric, and a metric over it has `from: m` in place of `source`",
        "metrics/over.yaml:4: dimensions: got 'x', which 'm' does not have",
        "metrics/over.yaml:2: measures: got 'm', which 'm' does not have (there is: n)",
        "metrics/over_shares.yaml:2: measures: got 'share', which needs measures that are left out: add n",
        "metrics/over_starts.yaml:2: window: got windows with 'window_start', which names the window of a result: leave it out",
        "metrics/nothing.yaml:1: from: got 'nm', which is no metric of this project — did you mean 'm'?",
        "metrics/one.yaml:1: from: got 'two', which is over this metric itself (one → two → one), allowed is a metric that leads to a source",
        "metrics/two.yaml:1: from: got 'one', which is over this metric itself (two → one → two), allowed is a metric that leads to a source",
    ]


def test_windows_over_a_metric_are_made_of_its_panes(tmp_path: Path) -> None:
    over = "from: m\nwindow: "
    files: dict[str, str | bytes] = {
        "metrics/m.yaml": f"{METRIC}window: 10m\n",
        "metrics/made.yaml": f"{over}{{size: 1h, every: 20m}}\n",
        "metrics/not_made.yaml": f"{over}15m\n",
        "metrics/over_made.yaml": "from: made\nwindow: {size: 1 day, zone: Asia/Kathmandu}\n",
        "metrics/visits.yaml": f"{over}{{gap: 15m}}\n",
    }
    allowed = "which has panes of 15m, allowed are windows made of the panes of 'm', which have 10m"
    assert mistakes(tmp_path, files) == [
        f"metrics/not_made.yaml:2: window: got '15m', {allowed}",
        "metrics/visits.yaml:2: window: got 'sessions with a gap of 15m, at most 1d long', but 'm' does not keep when sessions begin and end: allowed are sessions over a metric that has sessions itself",
        f"metrics/over_made.yaml:2: window: got '1 day in Asia/Kathmandu', {allowed}",
    ]


def test_the_columns_and_views_of_windows_are_no_other_names(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "metrics/m.yaml": "source: s\nwindow: 3h\nmeasures: {window_end: count}\n",
        "metrics/n.yaml": "source: s\nwindow: 1 day\nmeasures: {n: count}\n",
        "metrics/n_hours.yaml": "source: s\nmeasures: {window_end: count}\n",
    }
    assert mistakes(tmp_path, files) == [
        "metrics/m.yaml:3: measures.window_end: got the name 'window_end', which Hourline uses for windows: choose another",
        "metrics/n_hours.yaml:1: name: got 'n_hours', which is the view of the hours of 'n', as that has windows: choose another name",
    ]


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("{gap: 0s}", "window.gap: got '0s', allowed are whole seconds, at least one"),
        (
            "{gap: 1d, max_length: 90m}",
            "window.max_length: got '1h 30m', allowed are whole hours, such as 24h, at least",
        ),
        (
            "{gap: 2d}",
            "window.gap: got the gap '2d', allowed is at most the maximum length of a session, which is 1d: set max_length",
        ),
        (
            "{gap: 30m, size: 1h}",
            "window.size: got 'size' beside the keys of sessions, allowed are gap and max_length: windows with a size are",
        ),
        ("{max_length: 2h}", "window.gap: is missing"),
        ("{gap: soon}", "window.gap: got 'soon', allowed are durations such as 30s"),
    ],
)
def test_sessions(tmp_path: Path, window: str, said: str) -> None:
    [only] = mistakes(tmp_path, {"metrics/m.yaml": f"{METRIC}window: {window}\n"})
    assert said in only


def test_sessions_over_a_metric_need_its_sessions_and_their_bounds_are_no_other_names(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {
        "metrics/m.yaml": f"{METRIC}window: {{gap: 30m}}\n",
        "metrics/hourly.yaml": METRIC,
        "metrics/longer.yaml": "from: m\nwindow: {gap: 45m}\n",
        "metrics/none.yaml": "from: hourly\nwindow: {gap: 1h}\n",
        "metrics/shorter.yaml": "from: m\nwindow: {gap: 20m}\n",
        "metrics/taken.yaml": "source: s\nwindow: {gap: 1h}\nmeasures: {session_end: count}\n",
    }
    assert mistakes(tmp_path, files) == [
        "metrics/taken.yaml:3: measures.session_end: got the name 'session_end', which Hourline uses for windows: choose another",
        "metrics/none.yaml:2: window: got 'sessions with a gap of 1h, at most 1d long', but 'hourly' does not keep when sessions begin and end: allowed are sessions over a metric that has sessions itself",
        "metrics/shorter.yaml:2: window: got 'sessions with a gap of 20m, at most 1d long', which has panes of 20m, allowed are windows made of the panes of 'm', which have 30m",
    ]


def test_expectations_about_windows_want_windows(tmp_path: Path) -> None:
    about = "expectations: [{expect_table_row_count_to_equal: {value: 1}, about: window}]\n"
    said = "expectations.0.about: got 'window', allowed is hour:"
    files: dict[str, str | bytes] = {
        "metrics/daily.yaml": f"{METRIC}window: 1 day\n{about}",
        "metrics/hourly.yaml": METRIC + about,
        "metrics/over.yaml": f"from: daily\n{about}",
        "metrics/sessions.yaml": f"{METRIC}window: {{gap: 30m}}\n{about}",
        "metrics/unlike.yaml": "from: daily\nhistory: off\n",
        "sources/s.yaml": SOURCE + about,
    }
    audited = "got it in a metric over another one, which has no audit: declare it in the metric with `source` that 'daily' leads to"
    assert sorted(mistakes(tmp_path, files)) == [
        f"metrics/hourly.yaml:3: {said} the windows of this metric are hours",
        f"metrics/over.yaml:2: expectations: {audited}",
        f"metrics/sessions.yaml:4: {said} sessions have no expectations of their own",
        f"metrics/unlike.yaml:2: history: {audited}",
        f"sources/s.yaml:4: {said} a source has no windows; a metric over it may have it",
    ]
