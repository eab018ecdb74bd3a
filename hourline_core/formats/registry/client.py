"""Asks a schema registry, by confluent-kafka's client, and says in one sentence why it has not answered."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hourline_core.error_causes import first_cause
from hourline_core.errors import RegistryAwayError, RegistryForbidsError
from hourline_core.formats.registry.wire_format import SchemaId
from hourline_core.formats.registry.written_schema import SchemaKind, WrittenSchema
from hourline_core.model.registry import RegistryAccess

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, SchemaRegistryError

_SECONDS_FOR_ANSWER = 10.0
_MILLISECONDS_BETWEEN_TRIES = 200
_MOST_REFERENCES = 1000


class NotInRegistryError(Exception):
    """The registry has no such schema, subject or version. The text is its answer. ``reference``: the schema is
    there, but not what it refers to by this name.
    """

    def __init__(self, answer: str, reference: str = "") -> None:
        super().__init__(answer)
        self.reference = reference


class RefusedSchemaError(Exception):
    """The registry does not take a schema, such as one that is not compatible. The text is its answer."""


class RegistryClient:
    """Asks the registry of ``access``. It connects with the first question.

    Each question raises NotInRegistryError, RegistryAwayError if it has not been answered, and RegistryForbidsError if
    it will not be until a person mends something.
    """

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        self._made: SchemaRegistryClient | None = None

    def schema(self, schema_id: SchemaId) -> WrittenSchema:
        """The schema that has this id."""
        with self._asking() as client:
            if isinstance(schema_id, int):
                found = client.get_schema(schema_id)
                return self._with_references(client, schema_id, found, tuple(self._subjects_of(client, schema_id)))
            return self._with_references(client, schema_id, self._by_guid(client, str(schema_id)), ())

    def version(self, subject: str, version: int | None = None) -> tuple[int, WrittenSchema]:
        """A version of ``subject``, by default the newest one: its number, and its schema."""
        with self._asking() as client:
            found = client.get_version(subject, "latest" if version is None else version)
            if found.version is None or found.schema_id is None:
                raise ValueError("a version without its number and id")
            return found.version, self._with_references(client, found.schema_id, found.schema, (subject,))

    def register(self, subject: str, schema: str, kind: SchemaKind) -> int:
        """The id of a schema of ``subject``, which gets it as a new version unless it has it. Raises RefusedSchemaError
        if the subject may not have it.
        """
        from confluent_kafka.schema_registry import Schema, SchemaRegistryError

        with self._asking() as client:
            try:
                return int(client.register_schema(subject, Schema(schema, kind)))
            except SchemaRegistryError as error:
                if error.http_status_code in (409, 422):
                    raise RefusedSchemaError(first_cause([str(error.error_message)])) from None
                raise

    def ask(self) -> None:
        """Ask it something that any registry knows."""
        with self._asking() as client:
            client.get_schema_types()

    def subjects(self) -> list[tuple[str, list[int]]]:
        """The subjects, each with its versions."""
        with self._asking() as client:
            found = [(subject, self._versions_of(client, subject)) for subject in sorted(client.get_subjects())]
            return [(subject, versions) for subject, versions in found if versions]

    def _versions_of(self, client: "SchemaRegistryClient", subject: str) -> list[int]:
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return sorted(client.get_versions(subject))
        except SchemaRegistryError as error:
            if _is_unknown(error):  # It was deleted after the subjects were listed.
                return []
            raise

    def _by_guid(self, client: "SchemaRegistryClient", guid: str) -> "Schema":
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            return client.get_schema_by_guid(guid)
        except SchemaRegistryError as error:
            if error.http_status_code != 404 or _is_unknown(error):
                raise
            # Not every registry has this question. One that has no other either is none.
            client.get_schema_types()
            raise NotInRegistryError("this registry has no GUIDs (404)") from None

    def _subjects_of(self, client: "SchemaRegistryClient", schema_id: int) -> Iterator[str]:
        """The subjects of a schema, which only say more in a reason."""
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            yield from sorted({str(one.subject) for one in client.get_schema_versions(schema_id)})
        except SchemaRegistryError as error:
            # A registry may not have this question, or not allow it.
            if error.http_status_code >= 500:
                raise

    def _with_references(
        self, client: "SchemaRegistryClient", schema_id: SchemaId, found: "Schema", subjects: tuple[str, ...]
    ) -> WrittenSchema:
        references: dict[str, str] = {}

        def follow(schema: "Schema", within: tuple[str, ...]) -> None:
            for one in schema.references or ():
                name = str(one.name)
                if name in references or name in within:
                    continue
                if len(references) + len(within) >= _MOST_REFERENCES or one.subject is None or one.version is None:
                    raise ValueError(f"the reference '{name}' cannot be followed")
                referenced = self._referenced(client, name, one.subject, one.version)
                follow(referenced, (*within, name))
                references[name] = referenced.schema_str or ""

        if found.schema_type != "JSON":  # Nothing is read by it.
            follow(found, ())
        return WrittenSchema(schema_id, found.schema_type or "AVRO", found.schema_str or "", references, subjects)

    def _referenced(self, client: "SchemaRegistryClient", name: str, subject: str, version: int) -> "Schema":
        from confluent_kafka.schema_registry import SchemaRegistryError

        try:
            # One that was deleted is still what the schema refers to, until it is deleted for good.
            return client.get_version(subject, version, deleted=True).schema
        except SchemaRegistryError as error:
            if _is_unknown(error):
                raise NotInRegistryError(_answer(error), name) from None
            raise

    @contextmanager
    def _asking(self) -> "Iterator[SchemaRegistryClient]":
        from confluent_kafka.schema_registry import SchemaRegistryError

        url = self._access.url
        try:
            yield self._client()
        except (NotInRegistryError, RegistryAwayError, RegistryForbidsError, RefusedSchemaError):
            raise
        except SchemaRegistryError as error:
            if _is_unknown(error):
                raise NotInRegistryError(_answer(error)) from None
            status, words = error.http_status_code, _words(error)
            if status in (401, 403):
                raise RegistryForbidsError(
                    f"the schema registry at {url} does not let this user in ({status}: {words}); check registry.user "
                    "and registry.password in hourline.yaml"
                ) from None
            if status == 404:
                raise RegistryForbidsError(
                    f"{url} does not answer as a schema registry ({status}: {words}); check registry.url in "
                    "hourline.yaml"
                ) from None
            raise RegistryAwayError(f"the schema registry at {url} does not answer ({status}: {words})") from None
        except Exception as error:
            words = first_cause([f"{type(error).__name__}: {error}"])
            if "[SSL:" in words:
                raise RegistryForbidsError(
                    f"the schema registry at {url} is not trusted ({words}); check registry.ca in hourline.yaml"
                ) from None
            raise RegistryAwayError(f"the schema registry at {url} does not answer ({words})") from None

    def _client(self) -> "SchemaRegistryClient":
        if self._made is None:
            from confluent_kafka.schema_registry import SchemaRegistryClient

            access = self._access
            options: dict[str, object] = {"url": access.url, "timeout": _SECONDS_FOR_ANSWER, "max.retries": 1}
            options["retries.wait.ms"] = _MILLISECONDS_BETWEEN_TRIES
            options |= {"basic.auth.user.info": f"{access.user}:{access.password}"} if access.user else {}
            options |= {"ssl.ca.location": access.ca} if access.ca else {}
            try:
                self._made = SchemaRegistryClient(options)
            except OSError as error:  # of ssl, too
                raise RegistryForbidsError(
                    f"the certificates in {access.ca} cannot be read ({first_cause([str(error)])}); check registry.ca "
                    "in hourline.yaml"
                ) from None
        return self._made


def _is_unknown(error: "SchemaRegistryError") -> bool:
    """Whether a registry has answered that there is no such schema, subject or version."""
    # Of a URL that is no registry's, the code is another one than 40401 to 40403.
    code = error.error_code
    return bool(error.http_status_code == 404 and str(code).startswith("404") and code != 404)


def _answer(error: "SchemaRegistryError") -> str:
    return f"{_words(error)} ({error.error_code})"


def _words(error: "SchemaRegistryError") -> str:
    return first_cause([str(error.error_message or "no words")])
