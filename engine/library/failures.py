"""What can go wrong between this computer and the hub, in words for people: one error class, and where each comes from.

No report repeats an address with its query, since a signed one opens a file to whoever reads it, nor a token.
"""

from __future__ import annotations

import errno
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import httpx

from engine.errors import EngineError
from engine.sizes import size_words

LONGEST_WAIT = 3600.0
"""Seconds. A server that asks for more is taken at this."""

CUT_OFF = ("EOF", "BAD_RECORD_MAC")
"""In what OpenSSL says where a secure connection was not refused but ended or garbled on its way, as a line that breaks
does it: that passes."""

TRY_LATER = "Try again in a few minutes."
SIGN_IN = "Open a page in your browser, sign in to the network if it asks you to, then try again."


class HubError(EngineError):
    """A request to the hub that did not succeed.

    `passing` says that the same request may succeed later without anybody doing anything; `wait` is how long the
    server asked to be left alone (seconds). `page` is the hub's page where the user can do something about it.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        kept: str = "",
        next_step: str = "",
        detail: str = "",
        passing: bool = False,
        wait: float | None = None,
        page: str = "",
    ) -> None:
        super().__init__(code, what, kept=kept, next_step=next_step, detail=detail)
        self.passing = passing
        self.wait = wait
        self.page = page

    def keeping(self, kept: str) -> HubError:
        """The same, and what was kept."""
        self.report = replace(self.report, kept=kept)
        return self


def refused(answer: httpx.Response, repo: str, page: str, *, signed_in: bool) -> HubError:
    """What an answer with a status from 400 on means. `page` is the model's page on the hub."""
    status = answer.status_code
    said = answer.headers.get("X-Error-Message", "")[:300]
    code = answer.headers.get("X-Error-Code", "")
    detail = f"{status} {code} {said} {without_query(str(answer.url))}".replace("  ", " ")
    if code == "GatedRepo" and not signed_in:
        return HubError(
            "gated",
            f"{repo} is given only to people who agreed to its terms.",
            next_step="Open its page, agree to them, then enter your token in the Models window.",
            detail=detail,
            page=page,
        )
    if code == "GatedRepo" or (status == 403 and signed_in and "quota" not in said.lower()):
        return HubError(
            "not_granted",
            f"Your account has no access to {repo} yet.",
            next_step="Open its page and agree to its terms; then try again. Some owners take a while to answer.",
            detail=detail,
            page=page,
        )
    if status == 401 and signed_in and code != "RepoNotFound":
        return HubError(
            "token_refused",
            "The hub did not accept your token.",
            next_step="Make a new token on the hub’s settings page (“read” is enough) and enter it in Models.",
            detail=detail,
        )
    if code == "RevisionNotFound":
        what = f"The version of {repo} that was asked for is not on the hub any more."
        return HubError("revision_missing", what, next_step="Download the newest version instead.", detail=detail)
    if code == "EntryNotFound":
        what = f"A file of {repo} is not on the hub any more."
        return HubError("file_missing", what, next_step="Start the download again to get its list anew.", detail=detail)
    if status in (401, 404, 410) or code == "RepoNotFound":
        return HubError(
            "not_found",
            f"There is no model {repo} on the hub, or it is private.",
            next_step="Check how it is spelled. If it is private, enter a token that may read it in the Models window.",
            detail=detail,
        )
    if status in (402, 509) or "quota" in said.lower():
        what = "The hub’s quota for this account or this address is used up."
        return HubError("quota", what, next_step="Wait until it is renewed, or use another account.", detail=detail)
    if status == 429:
        wait = retry_after(answer.headers)
        what = f"The hub asks to wait{f' {seconds_in_words(wait)}' if wait else ''}: there were too many requests."
        return HubError("too_many_requests", what, next_step=TRY_LATER, detail=detail, passing=True, wait=wait)
    if status == 407:
        what = "The proxy of this network asks for a name and a password."
        return HubError("proxy", what, next_step="Enter them in the system’s network settings.", detail=detail)
    if status == 403:
        return HubError(
            "forbidden",
            "The download was refused by the hub or by something in between, such as a firewall.",
            next_step="Try again, or try another network.",
            detail=detail,
        )
    if status >= 500 or status in (408, 425):
        what = "The hub has a problem of its own right now."
        wait = retry_after(answer.headers)
        return HubError("hub_down", what, next_step=TRY_LATER, detail=detail, passing=True, wait=wait)
    return HubError(
        "hub_answer", f"The hub answered in an unexpected way ({status}).", next_step=TRY_LATER, detail=detail
    )


def web_page(answer: httpx.Response) -> HubError:
    """A page for people came where data should."""
    return HubError(
        "web_page",
        "Something between you and the hub answered with a web page.",
        next_step=SIGN_IN,
        detail=f"{answer.status_code} {answer.headers.get('Content-Type', '')} {without_query(str(answer.url))}",
    )


def unreachable(error: Exception, address: str) -> HubError:
    """What an httpx exception means, or the system's for a name or a connection."""
    host = host_of(address) or without_query(address)
    detail = f"{type(error).__name__}: {error} ({without_query(address)})"
    if certificate := _certificate(error):
        if certificate.verify_code in (9, 10):  # not yet valid, expired
            return HubError(
                "clock",
                f"The certificate of {host} is not valid at the date of this computer, {datetime.now():%d %B %Y}.",
                next_step="Check date and time in the system’s settings. If they are right, try another network.",
                detail=detail,
            )
        return HubError(
            "certificate",
            f"The identity of {host} could not be confirmed, so nothing was sent to it.",
            next_step=f"{SIGN_IN} In a company’s network, its administrator can tell what certificate it needs.",
            detail=detail,
        )
    if isinstance(error, httpx.ProxyError):
        what = "The proxy of this network did not let the request through."
        return HubError("proxy", what, next_step="Check the proxy in the system’s network settings.", detail=detail)
    if isinstance(error, httpx.TooManyRedirects):
        what = "The hub sent the request round in circles."
        return HubError("redirects", what, next_step=f"{TRY_LATER} {SIGN_IN}", detail=detail)
    if isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL | ValueError):
        what = f"“{without_query(address)}” is no address of a hub."
        return HubError("address", what, next_step="Check HF_ENDPOINT; it begins with https://.", detail=detail)
    if "SSL" in str(error) and not any(word in str(error) for word in CUT_OFF):
        what = f"No secure connection to {host} came about."
        return HubError("tls", what, next_step=SIGN_IN, detail=detail)
    if isinstance(error, httpx.TimeoutException):
        what = f"{host} does not answer."
        return HubError("timeout", what, next_step="Check the network, then try again.", detail=detail, passing=True)
    if isinstance(error, httpx.ConnectError):
        what = f"There is no connection to {host}."
        return HubError("no_network", what, next_step="Check the network, then try again.", detail=detail, passing=True)
    what = f"The connection to {host} broke off."
    return HubError("broke_off", what, next_step="Check the network, then try again.", detail=detail, passing=True)


def on_disk(error: OSError, folder: str) -> HubError:
    """What an error of the disk means for a download into `folder`."""
    detail = f"{type(error).__name__}: {error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return disk_full(folder, detail=detail)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        what = f"Foreword may not write into {folder}."
        next_step = "Give it the permission in the Finder (Get Info), or choose another folder for models."
        return HubError("read_only", what, next_step=next_step, detail=detail)
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO, errno.EIO):
        what = f"The disk with {folder} cannot be written to, or is not connected any more."
        return HubError("disk_gone", what, next_step="Connect it again, then resume.", detail=detail)
    return HubError("disk", f"Writing into {folder} did not succeed.", next_step="Try it again.", detail=detail)


def disk_full(folder: str, *, needed: int = 0, free: int = 0, detail: str = "") -> HubError:
    """No room for what is still to come. `needed` and `free` in bytes, where they are known."""
    what = f"There is not enough room on the disk with {folder}."
    if needed:
        what = f"The download needs {size_words(needed)} more on this disk, and {size_words(free)} are free."
    return HubError("disk_full", what, next_step="Make room, then resume.", detail=detail or folder)


def offline() -> HubError:
    """Somebody asked for no network at all."""
    return HubError(
        "offline",
        "Foreword was told to stay offline (HF_HUB_OFFLINE), so no server was asked.",
        next_step="Start it without HF_HUB_OFFLINE to search and download.",
    )


def retry_after(headers: httpx.Headers, now: datetime | None = None) -> float | None:
    """How long a server asks to be left alone, in seconds: Retry-After as a number or a date, or the hub's RateLimit
    header (`"api";r=0;t=55`). None where it does not say, or nothing that makes sense."""
    said = headers.get("Retry-After", "").strip()
    seconds: float | None = None
    if said.isascii() and said.isdigit():
        seconds = float(said[:9])
    elif said:
        try:
            then = parsedate_to_datetime(said)
            then = then if then.tzinfo else then.replace(tzinfo=UTC)
            seconds = (then - (now or datetime.now(UTC))) / timedelta(seconds=1)
        except (ValueError, TypeError, OverflowError):
            seconds = None
    else:
        for part in headers.get("RateLimit", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == "t" and value.isascii() and value.isdigit():
                seconds = float(value[:9])
    return None if seconds is None else min(max(seconds, 0.0), LONGEST_WAIT)


def without_query(address: str) -> str:
    return address.partition("?")[0]


def host_of(address: str) -> str:
    """The host's name in an address, or "" where it is none."""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def seconds_in_words(seconds: float) -> str:
    """55 -> "55 s", 130 -> "3 min", 7300 -> "2 h 2 min"; minutes are rounded up."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = -int(-seconds // 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _certificate(error: BaseException | None) -> ssl.SSLCertVerificationError | None:
    seen = 0
    while error is not None and seen < 10:
        if isinstance(error, ssl.SSLCertVerificationError):
            return error
        error, seen = error.__cause__ or error.__context__, seen + 1
    return None
