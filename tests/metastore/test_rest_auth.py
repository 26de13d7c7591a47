"""Who asks a REST catalog: signatures equal Java's, tokens that end are renewed and never shown.

The options `token.*`, `dlf.*`, `header.*` and `data-token.enabled`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from paimon_spark.errors import CatalogServerError, PaimonError
from paimon_spark.metastore import rest_auth
from paimon_spark.metastore.rest_auth import (
    DlfAuth,
    DlfToken,
    EcsRole,
    Request,
    TokenFile,
    auth_provider,
    default_headers,
    openapi_headers,
)
from paimon_spark.spec.schema import create_schema
from paimon_spark.table.metastore_catalog import open_catalog
from tests.support.rest_server import RestProxy, RestServer, rest_proxy
from tests.support.store_tables import FIELDS, insert, rows_of

_REQUEST = Request("POST", "/v1/p/tables/t%24branch_b", {"b": "2 x", "a": ""}, '{"name": "d"}')
_TOKEN = DlfToken("key", "secret", "sts")
_NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_signatures_equal_javas(rest: RestServer) -> None:
    assert default_headers(_REQUEST, _TOKEN, "cn-hangzhou", _NOW) == rest.signed("default")
    java = rest.signed("openapi")
    host, nonce = "dlfnext.cn-hangzhou.aliyuncs.com", java["x-acs-signature-nonce"]
    assert openapi_headers(_REQUEST, _TOKEN, host, _NOW, nonce) == java


def _dlf(rest: RestServer, **more: str) -> dict[str, str]:
    given = {"metastore": "rest", "uri": rest.dlf_uri, "warehouse": "wh", "token.provider": "dlf"}
    return {**given, "dlf.region": "cn-hangzhou", **more}


def _asks(options: dict[str, str]) -> None:
    """Ask the server, which takes a signature only within the second in which it was made."""
    for _ in range(4):
        with contextlib.suppress(CatalogServerError):
            open_catalog("wh", options).databases()
            return
    open_catalog("wh", options).databases()


def test_a_server_takes_our_signatures(rest: RestServer, tmp_path: Path) -> None:
    keys = {"dlf.access-key-id": "key", "dlf.access-key-secret": "secret"}
    _asks(_dlf(rest, **keys, **{"dlf.security-token": "sts"}))
    with pytest.raises(CatalogServerError, match="does not accept the credentials"):
        _asks(_dlf(rest, **keys))
    path = tmp_path / "token.json"
    path.write_text('{"AccessKeyId": "key", "AccessKeySecret": "secret", "SecurityToken": "sts"}')
    _asks(_dlf(rest, **{"dlf.token-path": str(path)}))


def _text(key: str, seconds: float) -> str:
    ends = datetime.fromtimestamp(time.time() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return json.dumps({"AccessKeyId": key, "AccessKeySecret": "hidden", "SecurityToken": "s", "Expiration": ends})


def _key(auth: rest_auth.AuthProvider) -> str:
    return auth.headers(_REQUEST)["Authorization"].partition("Credential=")[2].partition("/")[0]


def test_a_token_of_a_file_is_read_again_before_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "token.json"
    auth = DlfAuth(TokenFile(str(path)), "h", "r", "default")
    path.write_text(_text("one", 7000))
    assert _key(auth) == "one"
    path.write_text(_text("two", 3000))
    assert _key(auth) == "one"
    ending = DlfAuth(TokenFile(str(tmp_path / "ending.json")), "h", "r", "default")
    for key in ("one", "two"):
        (tmp_path / "ending.json").write_text(_text(key, 3000))
        assert _key(ending) == key
    assert "hidden" not in repr(rest_auth._tokens)


def test_a_token_file_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest_auth.time, "sleep", lambda _: None)
    with pytest.raises(PaimonError, match=r"cannot be read from .*no\.json \('dlf\.token-path'\): No such file"):
        TokenFile(str(tmp_path / "no.json")).load()
    (tmp_path / "bad.json").write_text("top secret")
    with pytest.raises(PaimonError, match="holds no JSON") as caught:
        TokenFile(str(tmp_path / "bad.json")).load()
    assert "top secret" not in str(caught.value)


@contextmanager
def _machine(answers: dict[str, str]) -> Iterator[str]:
    """The metadata of a machine of Alibaba's."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = answers.get(self.path)
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_address[1]}/roles/"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def test_a_machine_has_a_role(rest: RestServer) -> None:
    token = json.dumps({"AccessKeyId": "key", "AccessKeySecret": "secret", "SecurityToken": "sts"})
    with _machine({"/roles/": "reader", "/roles/reader": token, "/roles/writer": _text("w", 7000)}) as url:
        _asks(_dlf(rest, **{"dlf.token-loader": "ecs", "dlf.token-ecs-metadata-url": url}))
        assert EcsRole(url, "writer").load().access_key_id == "w"
        with pytest.raises(PaimonError, match="have no token: HTTP 404"):
            EcsRole(url, "nobody").load()
    with pytest.raises(PaimonError, match="give no answer: ConnectionError"):
        EcsRole(url).load()


def test_region_and_signer_are_taken_from_the_address() -> None:
    keys = {"token.provider": "dlf", "dlf.access-key-id": "key", "dlf.access-key-secret": "secret"}
    found = auth_provider(keys, "https://dlfnext.cn-hangzhou.aliyuncs.com/x")
    assert found == DlfAuth(DlfToken("key", "secret"), "dlfnext.cn-hangzhou.aliyuncs.com", "cn-hangzhou", "openapi")
    found = auth_provider(keys, "http://cn-beijing-vpc.dlf.aliyuncs.com")
    assert isinstance(found, DlfAuth)
    assert (found.region, found.algorithm) == ("cn-beijing", "default")
    assert "secret" not in repr(found).replace("access_key_secret", "")


def test_keys_of_the_store_are_renewed_before_they_end(rest: RestServer, caplog: pytest.LogCaptureFixture) -> None:
    ends = [time.time() + 7200]

    def fault(method: str, path: str, pass_on: Callable[[], tuple[int, bytes]]) -> tuple[int, bytes]:
        if not path.endswith("token"):
            return pass_on()
        token = {"fs.oss.accessKeyId": "id", "fs.oss.accessKeySecret": "hidden-key"}
        return 200, json.dumps({"token": token, "expiresAtMillis": int(ends[0] * 1000)}).encode()

    with rest_proxy(rest) as proxy, caplog.at_level(logging.DEBUG):
        proxy.fault = fault
        catalog = open_catalog("wh", {**rest.options(proxy.uri), "data-token.enabled": "true"})
        catalog.create_database("tokens")
        catalog.create_table("tokens", "t", create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1"}))
        table = pickle.loads(pickle.dumps(catalog.load_table("tokens", "t")))
        insert(table, {1: 10})
        assert rows_of(table) == {1: 10}
        assert _tokens(proxy) == 1
        ends[0] = time.time() + 60  # the next one ends at once
        catalog.drop_table("tokens", "t")
        catalog.create_table("tokens", "t", create_schema(FIELDS, primary_keys=["k"], options={"bucket": "1"}))
        insert(catalog.load_table("tokens", "t"), {1: 10})
        assert _tokens(proxy) > 1
        assert b"hidden-key" not in pickle.dumps(table)
        assert "hidden-key" not in caplog.text + repr(table)
        catalog.drop_database("tokens", cascade=True)


def _tokens(proxy: RestProxy) -> int:
    return sum(request.endswith("/token") for request in proxy.taken())


def test_headers_are_sent(rest: RestServer) -> None:
    seen: list[str | None] = []
    with rest_proxy(rest) as proxy:
        proxy.sees = lambda headers: seen.append(headers.get("X-Team"))
        open_catalog("wh", {**rest.options(proxy.uri), "header.X-Team": "lake"}).databases()
    assert seen == ["lake", "lake"]
