"""The outcomes of tests as JUnit's XML, which servers of continuous integration read."""

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from hourline.metric_tests.run_tests import OutcomeOfTest

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(project: str, outcomes: Sequence[OutcomeOfTest]) -> bytes:
    """The document. ``project`` is the name of the project."""
    failed = [outcome for outcome in outcomes if outcome.failure]
    counts = {"tests": str(len(outcomes)), "failures": str(len(failed)), "errors": "0"}
    seconds = f"{sum(outcome.seconds for outcome in outcomes):.3f}"
    root = ET.Element("testsuites", counts)
    suite = ET.SubElement(root, "testsuite", {"name": project, **counts, "skipped": "0", "time": seconds})
    for outcome in outcomes:
        test = outcome.test
        attributes = {"classname": project, "name": test.name, "file": test.document.file}
        case = ET.SubElement(suite, "testcase", {**attributes, "time": f"{outcome.seconds:.3f}"})
        if outcome.failure:
            failure = ET.SubElement(case, "failure", {"message": _NOT_XML.sub("?", outcome.failure.sentence)})
            failure.text = _NOT_XML.sub("?", "\n".join(outcome.failure.lines))
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content
