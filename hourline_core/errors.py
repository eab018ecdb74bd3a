"""The errors that a user of Hourline can meet.

    HourlineError                 the base: one sentence with what happened, what was got, what is allowed, what to do
    ├── DeclarationError          a mistake in hourline.yaml, sources/ or metrics/; names the file and line
    ├── UsageError                a wrong argument: a range, a name, a file, a query
    ├── SetupError                the machine lacks something: Java, a jar, a port, the network
    ├── BrokerError               Kafka refused something, or does not hold what it should
    │   ├── KafkaAwayError        Kafka does not answer
    │   └── KafkaForbidsError     Kafka does not let this user in, or does not allow what it asks for
    ├── RegistryError             the schema registry has not answered about a schema
    │   ├── RegistryAwayError     it does not answer
    │   └── RegistryForbidsError  it does not let this user in, is not trusted, or is no registry
    ├── SinkError                 what a sink sends to has not taken a result
    ├── SourceError               Kafka's records are not those that were read: a person decides how to go on
    │   ├── LostRecordsError      Kafka deleted records before they were read
    │   └── TopicReplacedError    a topic that was read was deleted, or deleted and recreated
    ├── StartTimeoutError         a background service was not ready in time
    ├── ConflictError             another process writes here: it holds a lease, or has committed meanwhile
    │   └── ReadAgainError        the speed layer is to read rejected records again, so they are not decoded anew
    ├── DeliveryError             records that a replay could not deliver
    ├── SparkError                a Spark job failed
    ├── ResourceError             the machine's disk or memory is used up, or its disk is read-only
    ├── OutputError               the output of a command cannot be written
    │   └── UnreadOutputError     its reader has ended
    ├── FaultError                an unforeseen exception: a fault of Hourline's
    ├── UnreliableResultError     a strict answer would use hours that are not to be relied on
    ├── NotCountedYetError        records that an answer should count were not counted within the time to wait
    ├── OldWorkspaceError         the workspace was written by a version whose tables this one does not read
    └── TableError                a table is missing, incomplete, or not what coverage says it is

The command line prints the sentence, and exits with the status that ``hourline.exit_status`` says. No stack trace is
shown for any of these. What libraries raise becomes one of these in ``hourline_core.faults``.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class HourlineError(Exception):
    """Base of every error that a user can mend. ``str(error)`` is the whole message."""

    retryable = False
    """Whether trying again may help, with nothing changed."""


class DeclarationError(HourlineError):
    """One or more mistakes in the declarations, one line each, as ``file:line: what is wrong``."""


class UsageError(HourlineError):
    """A wrong argument."""


class SetupError(HourlineError):
    """Something the machine lacks."""


class BrokerError(HourlineError):
    """Kafka cannot be reached, or refused something."""

    retryable = True


class KafkaAwayError(BrokerError):
    """Kafka does not answer, or says that trying again may help. It may be back by itself."""


class KafkaForbidsError(BrokerError):
    """Kafka does not let this user in, or does not allow what it asks for."""

    retryable = False


class RegistryError(HourlineError):
    """The schema registry has not answered about a schema that is not known here. ``source``: the name of the source
    whose stream has ended by it. ``reason``: the text without that source.
    """

    retryable = True

    def __init__(self, text: str, *, source: str = "", reason: str = "") -> None:
        super().__init__(text)
        self.source, self.reason = source, reason or text


class RegistryAwayError(RegistryError):
    """The schema registry does not answer. It may be back by itself."""


class RegistryForbidsError(RegistryError):
    """The schema registry does not let this user in, is not trusted, or is no registry."""

    retryable = False


class SinkError(HourlineError):
    """What a sink sends to has not taken a result: a topic, an address, a command or a table. It is sent again."""

    retryable = True


class SourceError(HourlineError):
    """Kafka's records are not those that were read: some are gone, or a topic was recreated. Or they cannot be read.
    Trying again does not help.
    """


class TopicReplacedError(SourceError):
    """A topic that was read was deleted, or deleted and recreated. ``goes_on``: its source declares that it is read on
    with the new one.
    """

    def __init__(self, text: str, *, goes_on: bool = False) -> None:
        super().__init__(text)
        self.goes_on = goes_on


class StartTimeoutError(HourlineError):
    """A background service was not ready in time, and was stopped again."""

    retryable = True


class ConflictError(HourlineError):
    """Another process writes here. Nothing was changed."""

    retryable = True


class ReadAgainError(ConflictError):
    """After a reset, the speed layer is to read rejected records again. Until then they are not decoded anew."""


class LostRecordsError(SourceError):
    """Kafka deleted records before they were read. A person decides whether to go on without them."""


class DeliveryError(HourlineError):
    """Records that were not delivered to Kafka."""

    retryable = True


class SparkError(HourlineError):
    """A Spark job failed, or Spark's Java process has ended."""

    retryable = True


class ResourceError(HourlineError):
    """The machine's disk or memory is used up, or its disk is read-only. The message names the folder or the limit."""

    retryable = True


class OutputError(HourlineError):
    """What a command prints cannot be written, such as to a full disk."""

    retryable = True


class UnreadOutputError(OutputError):
    """Whoever read what a command prints has ended, such as ``head``."""


class FaultError(HourlineError):
    """An exception that nobody has foreseen: a fault of Hourline's. Its stack trace is in the log."""


class UnreliableResultError(HourlineError):
    """A strict answer would use hours that are missing, blocked or incomplete."""


class NotCountedYetError(HourlineError):
    """Records that an answer should count were not counted within the time to wait."""

    retryable = True


class OldWorkspaceError(HourlineError):
    """The workspace was written by a version whose tables this version does not read."""


class TableError(HourlineError):
    """A table is missing, incomplete, or not the expected one."""


def did_you_mean(got: str, allowed: Iterable[str]) -> str:
    """`` — did you mean 'x'?`` if one of ``allowed`` is near ``got``, otherwise the list of allowed values (or
    nothing).
    """
    names = sorted(allowed)
    folded = {name.casefold(): name for name in names}
    near = get_close_matches(got.casefold(), list(folded), n=1, cutoff=0.6)
    if near:
        return f" — did you mean '{folded[near[0]]}'?"
    return f" (there is: {', '.join(names)})" if names else ""


def first_line(error: Exception) -> str:
    """The first line of a library's error message."""
    return str(error).strip().partition("\n")[0]
