"""A Kafka as companies run it: TLS, a listener for each way to say who one is, and rights that are denied by default.

The tests themselves use its plain listener, as a super user.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined] # not in strict mypy's way
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from hourline_core.runtime.ports import LOOPBACK, free_ports
from tests.support.certificates import Authority
from tests.support.kafka_cluster import KafkaCluster
from tests.support.token_server import AUDIENCE, TokenServer, serve_tokens

CANARY = "canary"
"""It is in each secret, and must be nowhere else."""
PASSWORD = f'{CANARY} "word" \\ of $SCRAM'
SECRET = f"{CANARY}-of-tokens"

_LISTENERS = ("TLS", "MUTUAL", "SCRAM", "PLAIN", "OAUTH")
_MODULE = "org.apache.kafka.common.security"
RIGHTS = {
    "read": AclOperation.READ,
    "write": AclOperation.WRITE,
    "create": AclOperation.CREATE,
    "describe": AclOperation.DESCRIBE,
    "describe_configs": AclOperation.DESCRIBE_CONFIGS,
}


@dataclass(frozen=True)
class SecuredKafka:
    """One that runs. ``listeners`` are its addresses by their name."""

    cluster: KafkaCluster
    authority: Authority
    tokens: TokenServer
    listeners: dict[str, str]

    @property
    def plain(self) -> str:
        """The address of the tests."""
        return self.cluster.bootstrap

    def allow(self, user: str, right: str, kind: str, name: str, prefixed: bool = False) -> None:
        """Allow ``user`` an operation on a ``topic``, ``group`` or ``transactional_id``. ``prefixed``: on all whose names
        begin so.
        """
        pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
        allowed = AclPermissionType.ALLOW
        acl = AclBinding(ResourceType[kind.upper()], name, pattern, f"User:{user}", "*", RIGHTS[right], allowed)
        self._ask("create_acls", acl)

    def take_back(self, user: str) -> None:
        """Take all rights of ``user``."""
        everything = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # any
            ResourcePatternType.ANY,
            f"User:{user}",
            "*",
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        self._ask("delete_acls", everything)

    def _ask(self, request: str, acl: AclBinding | AclBindingFilter) -> None:
        admin = self.cluster.admin()
        for answer in getattr(admin, request)([acl], request_timeout=30).values():
            answer.result()


@contextmanager
def secured_kafka(folder: Path, users: Sequence[str]) -> Iterator[SecuredKafka]:
    """A Kafka of one node. ``users`` have PASSWORD by SCRAM and PLAIN, and SECRET by OAuth. A client with a
    certificate of the authority is the user of that name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    authority = Authority(folder)
    broker = authority.issue("broker")
    store = folder / "broker.store.pem"
    store.write_bytes(broker.key.read_bytes() + broker.certificate.read_bytes())
    ports = dict(zip(_LISTENERS, free_ports(len(_LISTENERS)), strict=True))
    with serve_tokens(TokenServer(dict.fromkeys(users, SECRET)), broker) as tokens:
        tokens.write_keys(folder / "keys.json")
        keys = (folder / "keys.json").as_uri()
        java = [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"]
        settings = _settings(ports, store, authority.file, keys, users)
        with KafkaCluster(folder / "kafka", 1, settings, java, ports) as cluster:
            admin = cluster.admin()
            for user in users:
                credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
                change = UserScramCredentialUpsertion(user, credential, PASSWORD.encode())
                admin.alter_user_scram_credentials([change], request_timeout=30)[user].result()
            addresses = {name: f"{LOOPBACK}:{port}" for name, port in ports.items()}
            yield SecuredKafka(cluster, authority, tokens, addresses)


def _settings(
    ports: dict[str, int], store: Path, authority: Path, keys: str, users: Sequence[str]
) -> dict[str, object]:
    protocols = {name: "SSL" if name in ("TLS", "MUTUAL") else "SASL_SSL" for name in ports}
    words = _quoted(PASSWORD)
    plain = " ".join(f'user_{user}="{words}"' for user in users)
    return {
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *(f"{name}:{of}" for name, of in protocols.items())]
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
        "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{_MODULE}.scram.ScramLoginModule required;",
        "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.plain.plain.sasl.jaas.config": _line(f"{_MODULE}.plain.PlainLoginModule required {plain};"),
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{_MODULE}.oauthbearer.OAuthBearerLoginModule required;",
        "listener.name.oauth.oauthbearer.sasl.server.callback.handler.class": (
            f"{_MODULE}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
        "listener.name.oauth.sasl.oauthbearer.jwks.endpoint.url": keys,
        "listener.name.oauth.sasl.oauthbearer.expected.audience": AUDIENCE,
        "allow.everyone.if.no.acl.found": "false",
        "super.users": "User:ANONYMOUS",
    }


def _quoted(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text)


def _line(value: str) -> str:
    """As a value of a file of properties."""
    return value.replace("\\", "\\\\")
