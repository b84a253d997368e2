"""A client for a shop's server. What is asked for is retried under one key until it is decided or the time is over, and what is not
known then is an outcome of its own: an order that may have been placed is never said to have failed.

    shop = doorbuster.Doorbuster("https://drops.shop.example", token=token_of_the_buyer)
    match shop.place_order({"sale": 3, "product": 29}, key):
        case doorbuster.Done(order):
            ...
        case doorbuster.Refused(status, code, detail):
            ...
        case doorbuster.Unknown(key, why):
            ...  # it may have been placed: ask again with the same key

The types are generated of the API's document (`document.py`, by `clients/python/generate`); this file has what the document can't say:
when to ask again, and what an answer proves.
"""

import hashlib
import hmac
import json
import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

import requests

from .document import Order, OrderFeed, OrderRequest, Payment, PaymentRequest, Sale

__all__ = ["Done", "Doorbuster", "NotRead", "Refused", "Unanswered", "Unknown", "new_key"]

# Shortest and longest pause between two attempts in seconds, where the server does not say how long.
PAUSE_MIN = 0.1
PAUSE_MAX = 5.0
# Longest pause that a server is believed to want.
RETRY_AFTER_MAX = 60.0
# Refused before anything was done, for now.
NOT_NOW = {"busy", "unavailable", "ledger_unreadable", "pending"}
# Of answers for which the key was looked up: if the order were there, it would have been the answer.
AFTER_THE_KEY = {404, 409, 422}


T = TypeVar("T")


@dataclass(frozen=True)
class Done(Generic[T]):
    """It happened."""

    value: T


@dataclass(frozen=True)
class Refused:
    """It surely did not happen. `code` is stable, for example "sold_out"."""

    status: int
    code: str
    detail: str


@dataclass(frozen=True)
class Unknown:
    """It may have happened, or may happen yet. To learn it, make the same call with the same key again, later too."""

    key: str
    why: str


class Unanswered(Exception):
    """No answer to a call that only reads."""


class NotRead(Exception):
    """An answer that is an error, to a call that only reads; `refused` says which."""

    def __init__(self, refused: Refused):
        super().__init__(f"{refused.status} {refused.code}: {refused.detail}")
        self.refused = refused


@dataclass(frozen=True)
class _Lost:
    """It may have been carried out."""

    why: str
    retry_after: float | None = None


@dataclass(frozen=True)
class _Answered:
    """It was not carried out. `later`: ask again."""

    refused: Refused
    later: bool
    retry_after: float | None


class Doorbuster:
    """`token` is of a buyer (a token of the shop, or a session), or of the operator. `attempt_s` and `call_s` are the longest times of one
    attempt and of a call with all of its attempts. One object is for one thread."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        attempt_s: float = 5.0,
        call_s: float = 30.0,
    ):
        self._url = url.rstrip("/")
        self._attempt_s = attempt_s
        self._call_s = call_s
        self._session = requests.Session()
        # No password of ~/.netrc takes the token's place, and no proxy is asked that nobody named.
        self._session.trust_env = False
        self._session.headers.update(headers or {})
        if token is not None:
            self._session.headers["Authorization"] = f"Bearer {token}"

    def place_order(self, order: OrderRequest, key: str | None = None) -> Done[Order] | Refused | Unknown:
        """Keep the key with the buyer's attempt, and give it again to ask what became of it."""
        key = key or new_key()
        return self._change(key, "/api/v1/orders", json.dumps(order), lambda _body: {"Idempotency-Key": key})

    def cancel_order(self, order: str) -> Done[Order] | Refused | Unknown:
        return self._change(order, f"/api/v1/orders/{_segment(order)}/cancel")

    def report_payment(self, payment: PaymentRequest, secret: bytes) -> Done[Payment] | Refused | Unknown:
        """What the payment provider says, signed with the secret of DOORBUSTER_PAYMENT_SECRET."""
        signed = lambda body: {"Doorbuster-Signature": _signature(body, secret)}
        return self._change(payment["payment_id"], "/api/v1/payments", json.dumps(payment), signed)

    def settle_refund(self, payment: str) -> Done[Payment] | Refused | Unknown:
        """Operator: says that the provider gave the money back."""
        return self._change(payment, f"/api/v1/payments/{_segment(payment)}/settle")

    def order(self, order: str, wait: int | None = None) -> Order:
        """`wait`: seconds to wait for an order that is pending."""
        return self._read(f"/api/v1/orders/{_segment(order)}", {} if wait is None else {"wait": wait})

    def sale(self, sale: int) -> Sale:
        return self._read(f"/api/v1/sales/{sale:d}", {})

    def changes(self, since: int, limit: int = 1000, wait: int = 0) -> OrderFeed:
        """Operator: orders that were placed or changed after the cursor `since`, for as long as `more` is true. `wait`: seconds
        to wait while nothing happens; fewer than an attempt may take."""
        return self._read("/api/v1/orders", {"since": since, "limit": limit, "wait": wait})

    def _change(
        self,
        key: str,
        path: str,
        body: str | None = None,
        headers_of: Callable[[bytes], Mapping[str, str]] = lambda _body: {},
    ):
        ends = time.monotonic() + self._call_s
        lost: str | None = None
        data = body.encode() if body is not None else b""
        attempt = 0
        while True:
            attempt += 1
            headers = dict(headers_of(data))
            if body is not None:
                headers["Content-Type"] = "application/json"
            got = self._attempt("POST", path, ends, data=data, headers=headers)
            if isinstance(got, Done):
                return got
            if isinstance(got, _Lost):
                lost = got.why
            elif not got.later:
                if lost is None or got.refused.status in AFTER_THE_KEY:
                    return got.refused
                return Unknown(key, f"{lost}; then {got.refused.status} {got.refused.code}: {got.refused.detail}")
            pause = _pause(attempt, got.retry_after)
            if time.monotonic() + pause >= ends:
                return got.refused if lost is None else Unknown(key, lost)
            time.sleep(pause)

    def _read(self, path: str, query: Mapping[str, int]):
        ends = time.monotonic() + self._call_s
        attempt = 0
        while True:
            attempt += 1
            got = self._attempt("GET", path, ends, params=query)
            if isinstance(got, Done):
                return got.value
            pause = _pause(attempt, got.retry_after)
            if (isinstance(got, _Lost) or got.later) and time.monotonic() + pause < ends:
                time.sleep(pause)
                continue
            raise Unanswered(got.why) if isinstance(got, _Lost) else NotRead(got.refused)

    def _attempt(self, method: str, path: str, ends: float, **request):
        left = max(0.001, min(self._attempt_s, ends - time.monotonic()))
        try:
            response = self._session.request(method, self._url + path, timeout=left, allow_redirects=False, **request)
            if response.ok and response.status_code < 300:
                return Done(response.json())
        except requests.RequestException as error:
            return _Lost(f"no answer: {error}")
        return _judge(response)


def _judge(response: requests.Response) -> _Lost | _Answered:
    try:
        problem = response.json()
        code, detail = problem["code"], problem["detail"]
        is_problem = True
    except (ValueError, KeyError, TypeError):
        code, detail, is_problem = "", response.reason or "", False
    status, retry_after = response.status_code, _retry_after(response.headers.get("Retry-After"))
    refused = Refused(status, code, detail)
    if status in (408, 429) or (is_problem and code in NOT_NOW):
        return _Answered(refused, True, retry_after)
    # A proxy that answers in the server's place does not know what the server did.
    if status >= 500 or status < 400:
        return _Lost(f"{status} {code}: {detail}", retry_after)
    return _Answered(refused, False, retry_after)


def _retry_after(text: str | None) -> float | None:
    """In seconds; dates are not used by the server."""
    return min(float(text), RETRY_AFTER_MAX) if text and text.isascii() and text.isdigit() else None


def _pause(attempt: int, retry_after: float | None) -> float:
    """Doubles with each attempt, and is shorter by up to half at random: a crowd must not come back together."""
    if retry_after is not None:
        return retry_after
    longest = min(PAUSE_MIN * 2 ** min(attempt, 16), PAUSE_MAX)
    return longest * random.uniform(0.5, 1.0)


def _segment(text: str) -> str:
    return quote(text, safe="")


def _signature(body: bytes, secret: bytes) -> str:
    at = str(int(time.time()))
    return f"t={at},v1={hmac.new(secret, at.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


def new_key() -> str:
    """A key for one attempt of a buyer."""
    return str(uuid.uuid4())
