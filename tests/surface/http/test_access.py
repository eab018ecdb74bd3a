"""Who is answered over HTTP: every route, with every kind of token; hosts, origins, TLS, and what is refused at the
start.
"""

import base64
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from hourline_core.errors import SetupError
from serving_layer.http.access import OPEN_PATHS, Tokens
from serving_layer.http.server import Server, refuse_unguarded
from tests.support import raised
from tests.support.bare_tables import BareTables
from tests.support.visits_tables import serve_settings, serving, some_visits, visit_tables

READER, ADMIN = "r" * 16, "a" * 16
ENVIRON = {"HOURLINE_READER_TOKEN": READER, "HOURLINE_ADMIN_TOKEN": ADMIN}
ADMINS_OWN = {"/api/v1/rejected/{source}", "/api/v1/sql"}
"""What a reader must not; every other route is a reader's."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareTables]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        tables = visit_tables(tmp_path_factory.mktemp("access"), some_visits(5), monkeypatch)
        tables.start()
        tables.micro_batch(5)
        yield tables


def authorizations(token: str) -> list[dict[str, str]]:
    named = [base64.b64encode(f"{name}:{token}".encode()).decode() for name in ("anybody", "anyone", "somebody")]
    unpadded = [basic.rstrip("=") for basic in named]  # As some clients send it.
    return [
        {"Authorization": f"Bearer {token}"},
        *({"Authorization": f"Basic {basic}"} for basic in (named[0], *unpadded)),
    ]


def test_every_route_wants_a_token_and_some_an_admins(tables: BareTables) -> None:
    with Server(tables.project, environ=ENVIRON) as server, httpx.Client(base_url=server.url, timeout=600) as client:
        routes: list[Any] = list(server.routes)  # of several kinds, all with a path
        assert {route.path for route in routes} >= {
            "/api/v1/project",
            "/api/v1/changes",
            "/api/v1/openapi.json",
            "/reports",
            "/health",
        }
        for route in routes:
            path = route.path.format(
                metric="visits", hour="2024-03-01T00", start="2024-03-01T00", source="clicks", path="index.html"
            )
            for method in sorted(getattr(route, "methods", None) or {"GET"}):
                told = f"{method} {path}"
                if path in OPEN_PATHS:
                    assert status(client, method, path) == 200, told
                    continue
                for wrong in (
                    {},
                    *authorizations(READER + "r"),
                    authorizations("")[1],
                    {"Authorization": READER},
                    {"Authorization": "Basic ,"},
                ):
                    assert status(client, method, path, wrong) == 401, (told, wrong)
                for header in authorizations(READER):
                    assert (status(client, method, path, header) == 403) == (route.path in ADMINS_OWN), told
                for header in authorizations(ADMIN):
                    assert status(client, method, path, header) not in (401, 403), told
        refused = client.get("/api/v1/project")
        assert refused.headers.get_list("www-authenticate")[0].startswith("Bearer")
        assert refused.json()["error"].startswith("the request has no token")
        assert client.get("/nothing/here").status_code == 401, "what is not there is not told apart"
        assert {route.path for route in routes if isinstance(route, APIRoute)} >= ADMINS_OWN


def status(client: httpx.Client, method: str, path: str, headers: dict[str, str] | None = None) -> int:
    """The status alone: a stream has no end."""
    with client.stream(method, path, headers=headers) as answer:
        return answer.status_code


def test_health_tells_nothing_else(tables: BareTables) -> None:
    with serving(tables.project, ENVIRON) as client:
        answer = client.get("/health")
        assert answer.json() == {"status": "ok"}
        assert not {"etag", "server", "hourline-token"} & set(answer.headers)


def test_without_tokens_only_this_machine_s_own_names_are_answered(tables: BareTables) -> None:
    with serving(tables.project) as client:
        port = client.base_url.port
        for host in (f"127.0.0.1:{port}", "localhost", f"[::1]:{port}", "LOCALHOST:80", "127.0.0.2"):
            assert client.get("/api/v1/project", headers={"Host": host}).status_code == 200, host
        for host in (
            "attacker.example",
            f"attacker.example:{port}",
            "127.0.0.1.attacker.example",
            "",
            "localhost@attacker.example",
            "[::1",
        ):
            answer = client.get("/api/v1/project", headers={"Host": host})
            assert (answer.status_code, "error" in answer.json()) == (403, True), host


def test_pages_of_other_sites_get_nothing(tables: BareTables) -> None:
    with serving(tables.project) as client:
        own = f"http://127.0.0.1:{client.base_url.port}"
        for foreign in (
            {"Origin": "https://attacker.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:1"},
            {"Origin": "http://[::1"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            answer = client.get("/api/v1/project", headers=foreign)
            assert answer.status_code == 403, foreign
            assert not [name for name in answer.headers if name.startswith("access-control")]
        for fine in (
            {"Origin": own},
            {"Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        ):
            assert client.get("/api/v1/project", headers=fine).status_code == 200, fine


def test_tokens_come_from_a_file_and_the_environment_and_are_never_shown(tables: BareTables, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    project = serve_settings(tables.project, tokens=file)
    file.write_text(f"# of the dashboard\nreader {READER}\n\nadmin {ADMIN}\n")
    tokens = Tokens.of(project, {"HOURLINE_READER_TOKEN": "e" * 20})
    found = [
        client.right if (client := tokens.client(token)) else None for token in (READER, ADMIN, "e" * 20, "", "reader")
    ]
    assert found == ["reader", "admin", "reader", None, None]
    assert READER not in repr(vars(tokens))
    secret = "s3cret"  # noqa: S105
    for content, told in (
        (f"reader {secret}", "tokens:1: the token has 6 characters, allowed are 16 or more"),
        (f"reeder {secret}", "tokens:1: allowed in a line is `reader TOKEN` or `admin TOKEN` — did you mean 'reader'?"),
        (
            f"reader {READER}\nadmin {READER}",
            "tokens:2: this token is already listed for reader; allowed is each token once",
        ),
        (f"reader {secret * 4}ü", "tokens:1: the token has letters that a header cannot carry"),
        (secret * 4, "allowed in a line is `reader TOKEN` or `admin TOKEN`"),
        ("# none", "holds no token"),
    ):
        file.write_text(content)
        with pytest.raises(SetupError) as refused:
            Tokens.of(project, {})
        assert told in str(refused.value)
        assert secret not in str(refused.value)
    with pytest.raises(SetupError, match="cannot be read"):
        Tokens.of(serve_settings(tables.project, tokens=tmp_path / "nothing"), {})


@pytest.mark.parametrize(
    ("mode", "warned"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True), (0o622, True)]
)
def test_tokens_that_others_can_read_are_warned_of(
    tables: BareTables, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: bool
) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"reader {READER}\n")
    file.chmod(mode)
    with serving(tables.project, tokens=file):
        pass
    assert (f"`chmod 600 {file}`" in caplog.text) == warned
    assert READER not in caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])  # noqa: S104
def test_beyond_this_machine_it_needs_tokens_and_tls(tables: BareTables, host: str, tmp_path: Path) -> None:
    project = serve_settings(tables.project, host=host)
    with pytest.raises(
        SetupError, match=r"needs tokens \(serve.tokens .*\) and TLS \(serve.certificate and serve.key\)"
    ):
        Server(project, environ={})
    with pytest.raises(SetupError, match=r"needs TLS"):
        Server(project, environ=ENVIRON)
    with pytest.raises(SetupError, match=r"needs tokens"):
        Server(serve_settings(project, certificate=tmp_path / "c", key=tmp_path / "k"), environ={})
    refuse_unguarded(serve_settings(project, certificate=tmp_path / "c", key=tmp_path / "k"), ENVIRON)


def test_tls_is_spoken_where_a_certificate_is_set(tables: BareTables, tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path)
    trusting = ssl.create_default_context(cafile=str(certificate))
    with Server(serve_settings(tables.project, certificate=certificate, key=key), environ=ENVIRON) as server:
        assert server.url.startswith("https://127.0.0.1:")
        answer = httpx.get(
            f"{server.url}/api/v1/project", headers=authorizations(READER)[0], verify=trusting, timeout=600
        )
        assert answer.json()["project"] == tables.project.name
    key.write_text("no key")
    with pytest.raises(SetupError, match=r"TLS cannot be set up with .*serve.certificate, serve.key"):
        Server(serve_settings(tables.project, certificate=certificate, key=key), environ=ENVIRON)
    key.unlink()
    with pytest.raises(SetupError, match=f"No such file or directory: '{key}'"):
        Server(serve_settings(tables.project, certificate=certificate, key=key), environ=ENVIRON)


def test_a_port_that_is_taken_is_told(tables: BareTables) -> None:
    with (
        serving(tables.project) as client,
        pytest.raises(
            SetupError, match=r"cannot be listened on: .*; stop what uses it, or set serve.host and serve.port"
        ),
    ):
        Server(serve_settings(tables.project, port=client.base_url.port), environ={})


def test_a_name_that_no_host_can_have_is_told(tables: BareTables, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"host": "a" * 64, "certificate": tmp_path / "certificate", "key": tmp_path / "key"}
    with pytest.raises(SetupError, match=r"^a+ port .* cannot be listened on: .*; stop what uses it, or set serve"):
        Server(serve_settings(tables.project, **settings), environ=ENVIRON)


def test_what_fails_at_a_start_is_not_said_to_be_tls(
    tables: BareTables, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise raised.FULL_LOG

    monkeypatch.setattr("serving_layer.http.server.create_app", fail)
    with pytest.raises(OSError) as told:
        Server(tables.project, environ={})
    assert told.value is raised.FULL_LOG
    missing = {"certificate": tmp_path / "tls.crt", "key": tmp_path / "tls.key"}
    with pytest.raises(SetupError, match="TLS cannot be set up"):  # before the application is made
        Server(serve_settings(tables.project, **missing), environ={})
    monkeypatch.undo()
    monkeypatch.setattr("uvicorn.Config.load", fail)
    with pytest.raises(OSError) as told:
        Server(tables.project, environ={})
    assert told.value is raised.FULL_LOG


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    import ipaddress

    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "hourline")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "tls.crt", folder / "tls.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
