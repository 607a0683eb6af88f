"""Requests to the hub: who gets the token, and what is said where an answer is none."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import keyring
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError
from engine.library import failures, token
from engine.library.connection import Connection
from engine.library.failures import HubError
from tests.engine.keychain import Keychain
from tests.hub import LOGIN_PAGE, Answer, Hub, RedirectLoop, Silence

FILES = {"config.json": b"{}", "model.safetensors": b"weights"}


@pytest.fixture
def keychain() -> Iterator[Keychain]:
    before = keyring.get_keyring()
    keyring.set_keyring(held := Keychain())
    yield held
    keyring.set_keyring(before)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub(tokens={"hf_reader": frozenset({"somebody/gated"}), "hf_other": frozenset()}) as hub:
        hub.add("somebody/tiny", FILES)
        hub.add("somebody/gated", FILES, gated=True)
        yield hub


def fetch(connection: Connection, repo: str, path: str = "model.safetensors") -> bytes:
    with connection.open("GET", connection.file_address(repo, "main", path), repo=repo) as answer:
        return answer.read()


def why(connection: Connection, repo: str, path: str = "model.safetensors") -> HubError:
    with pytest.raises(HubError) as caught:
        fetch(connection, repo, path)
    return caught.value


def test_sx04_the_token_goes_to_the_hub_and_to_no_host_it_points_to(hub: Hub) -> None:
    with Connection(hub.endpoint, hub_token="hf_reader") as connection:
        assert fetch(connection, "somebody/gated") == b"weights"
    sent = [(seen.origin, seen.headers.get("authorization")) for seen in hub.requests]
    assert sent == [("hub", "Bearer hf_reader"), ("store", None)]


def test_sx04_another_port_of_the_hubs_host_is_another_host(hub: Hub) -> None:
    elsewhere = hub.store.replace("localhost", "127.0.0.1")
    hub.misbehave("config.json", Answer(302, b"", {"Location": f"{elsewhere}/store/x"}), stage="resolve")
    with Connection(hub.endpoint, hub_token="hf_reader") as connection, pytest.raises(HubError):
        fetch(connection, "somebody/tiny", "config.json")
    assert hub.requests[-1].origin == "store"
    assert "authorization" not in hub.requests[-1].headers


def test_sx04_no_error_repeats_the_token_or_a_signed_address(hub: Hub) -> None:
    for answer in (Answer(403, b"hf_reader"), Answer(500), Answer(418)):
        hub.misbehave("model.safetensors", answer)
        with Connection(hub.endpoint, hub_token="hf_reader") as connection:
            said = str(why(connection, "somebody/tiny").report.__dict__)
        assert "hf_reader" not in said
        assert "X-Signature" not in said


def test_d21_gated_models_are_three_different_messages(hub: Hub) -> None:
    said = {}
    for given_token in ("", "hf_other", "hf_wrong"):
        with Connection(hub.endpoint, hub_token=given_token) as connection:
            error = why(connection, "somebody/gated")
        said[error.report.code] = error.report.what
        assert not error.passing
        if error.report.code != "token_refused":
            assert error.page == f"{hub.endpoint}/somebody/gated"
    assert list(said) == ["gated", "not_granted", "token_refused"]
    assert len(set(said.values())) == 3


@pytest.mark.parametrize(
    ("answer", "code", "passing", "wait"),
    [
        (Answer(429, b"", {"Retry-After": "30"}), "too_many_requests", True, 30),
        (Answer(429, b"", {"RateLimit": '"api";r=0;t=55'}), "too_many_requests", True, 55),
        (Answer(503, b"", {"Retry-After": "5"}), "hub_down", True, 5),
        (Answer(500), "hub_down", True, None),
        (Answer(402), "quota", False, None),
        (Answer(403, b"", {"X-Error-Message": "Storage quota exceeded"}), "quota", False, None),
        (Answer(407), "proxy", False, None),
        (Answer(403), "forbidden", False, None),
        (Answer(404), "not_found", False, None),
        (Answer(302, b"", {"Location": "http://127.0.0.1:9/"}), "no_network", True, None),
        (RedirectLoop(), "redirects", False, None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_each_answer_has_its_own_words(hub: Hub, answer: Answer, code: str, passing: bool, wait: float | None) -> None:
    hub.misbehave("config.json", answer, stage="resolve", times=None)
    with Connection(hub.endpoint, hub_token="") as connection:
        error = why(connection, "somebody/tiny", "config.json")
    assert (error.report.code, error.passing, error.wait) == (code, passing, wait)
    assert error.report.what.endswith(".")
    assert error.report.next_step
    assert "!" not in str(error.report)


def test_d07_a_sign_in_page_in_place_of_data_is_said_to_be_one(hub: Hub) -> None:
    with Connection(hub.endpoint, hub_token="") as connection:
        for page in (LOGIN_PAGE, Answer(200, b"<html>", {"Content-Type": "application/json"})):
            hub.misbehave("somebody/tiny", page, stage="info")
            with pytest.raises(HubError) as caught:
                connection.json("/api/models/somebody/tiny")
            assert caught.value.report.code == "web_page"


def test_an_answer_that_never_comes_ends_by_itself(hub: Hub) -> None:
    hub.misbehave("somebody/tiny", Silence(), stage="info")
    with Connection(hub.endpoint, hub_token="", read=0.1) as connection, pytest.raises(HubError) as caught:
        connection.json("/api/models/somebody/tiny")
    assert (caught.value.report.code, caught.value.passing) == ("timeout", True)


def test_no_network_a_plain_server_behind_https_and_no_address_are_told_apart() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with Hub() as hub:
        found = {}
        for address in (f"http://127.0.0.1:{port}", hub.endpoint.replace("http:", "https:"), "ftp://hub", "http://["):
            with Connection(address, hub_token="") as connection, pytest.raises(HubError) as caught:
                connection.json("/api/models")
            found[caught.value.report.code] = caught.value.passing
    assert found == {"no_network": True, "tls": False, "address": False}


def test_d03_a_line_that_breaks_while_a_secure_connection_is_made_is_waited_for() -> None:
    def hang_up(server: socket.socket) -> None:
        there, _ = server.accept()
        with there:
            there.recv(1 << 16)

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        thread = threading.Thread(target=hang_up, args=(server,))
        thread.start()
        address = f"https://127.0.0.1:{server.getsockname()[1]}"
        with Connection(address, hub_token="") as connection, pytest.raises(HubError) as caught:
            connection.json("/api/models")
        thread.join()
    assert caught.value.passing


@pytest.mark.parametrize(
    ("said", "passing"),
    [
        ("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol", True),
        ("[SSL: DECRYPTION_FAILED_OR_BAD_RECORD_MAC] decryption failed or bad record mac", True),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", False),
        ("[SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version", False),
    ],
)
def test_d03_a_secure_connection_that_is_cut_off_is_no_refusal(said: str, passing: bool) -> None:
    for kind in (httpx.ConnectError, httpx.ReadError):
        assert failures.unreachable(kind(said), "https://huggingface.co").passing is passing


@pytest.mark.parametrize(("number", "code"), [(9, "clock"), (10, "clock"), (18, "certificate"), (20, "certificate")])
def test_a_certificate_that_is_out_of_date_points_to_the_clock(number: int, code: str) -> None:
    refused = ssl.SSLCertVerificationError("certificate verify failed")
    refused.verify_code = number
    error = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED]")
    error.__cause__ = refused
    found = failures.unreachable(error, "https://huggingface.co/x?signed=1")
    assert found.report.code == code
    assert "signed" not in str(found.report.__dict__)


def test_d28_offline_mode_asks_no_server(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(HubError, match="offline"):
        Connection(hub.endpoint)
    assert not hub.requests


def test_d25_a_proxy_of_the_system_is_used(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", hub.endpoint)
    with Connection("http://hub.example", hub_token="hf_reader") as connection:
        connection.json("/api/models/somebody/tiny")
    assert hub.requests[-1].headers["host"] == "hub.example"


def test_lists_are_read_page_by_page() -> None:
    with Hub(page=2) as hub:
        hub.add("somebody/tiny", {f"{number}.json": b"{}" for number in range(5)})
        with Connection(hub.endpoint, hub_token="") as connection:
            pages = list(connection.pages("/api/models/somebody/tiny/tree/main", {"recursive": "true"}))
    assert [len(page) for page in pages] == [2, 2, 1]


def test_a_list_that_would_go_on_at_another_host_is_refused(hub: Hub) -> None:
    body = Answer(200, b"[]", {"Content-Type": "application/json", "Link": f'<{hub.store}/next>; rel="next"'})
    hub.misbehave("", body, stage="search")
    with Connection(hub.endpoint, hub_token="hf_reader") as connection, pytest.raises(HubError):
        list(connection.pages("/api/models"))
    assert [seen.origin for seen in hub.requests] == ["hub"]


@given(st.text(st.characters(codec="latin-1")), st.text(st.characters(codec="latin-1")))
def test_whatever_a_server_says_about_waiting_is_a_time_or_nothing(said: str, limit: str) -> None:
    headers = httpx.Headers([(b"retry-after", said.encode("latin-1")), (b"ratelimit", limit.encode("latin-1"))])
    wait = failures.retry_after(headers)
    assert wait is None or 0 <= wait <= failures.LONGEST_WAIT


@given(st.integers(-10_000, 10_000))
def test_a_date_to_wait_for_is_as_far_away_as_it_is(seconds: int) -> None:
    now = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
    headers = httpx.Headers({"Retry-After": format_datetime(now + timedelta(seconds=seconds), usegmt=True)})
    assert failures.retry_after(headers, now) == min(max(seconds, 0), failures.LONGEST_WAIT)


# ---------------------------------------------------------------- the token


def test_a_token_is_kept_in_the_keychain_for_one_hub_and_forgotten(
    keychain: Keychain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    token.keep("https://huggingface.co", " hf_abc\n")
    assert token.token_for("https://huggingface.co") == "hf_abc"
    assert token.token_for("https://hf-mirror.com") is None
    monkeypatch.setenv("HF_TOKEN", "hf_from_outside")
    assert token.token_for("https://huggingface.co") == "hf_from_outside"
    monkeypatch.delenv("HF_TOKEN")
    token.forget("https://huggingface.co")
    token.forget("https://huggingface.co")
    assert token.token_for("https://huggingface.co") is None
    assert not keychain.held


@pytest.mark.parametrize("words", ["", "  ", "hf abc", "hf_abc\nX-Evil: 1", "hf_ü"])
def test_what_is_no_token_is_not_kept(keychain: Keychain, words: str) -> None:
    with pytest.raises(EngineError) as caught:
        token.keep("https://huggingface.co", words)
    assert caught.value.report.code == "not_a_token"
    assert not keychain.held


def test_without_a_keychain_there_is_no_token_and_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    from keyring.backends.fail import Keyring

    before = keyring.get_keyring()
    keyring.set_keyring(Keyring())
    try:
        assert token.token_for("https://example.org") is None
        with pytest.raises(EngineError) as caught:
            token.keep("https://example.org", "hf_abc")
    finally:
        keyring.set_keyring(before)
    assert caught.value.report.code == "no_keychain"
    assert "hf_abc" not in json.dumps(caught.value.report.__dict__)
