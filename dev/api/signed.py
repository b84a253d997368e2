"""What the checker can't know of the document alone: how callbacks are signed, and where its requests come from."""

import hashlib
import hmac
import itertools
import os
import time

import requests

SECRET = os.environ["DOORBUSTER_PAYMENT_SECRET"].encode()
SIGNATURE = "Doorbuster-Signature"
numbers = itertools.count(1)
send = requests.Session.send


def sent(session, request, **options):
    """Wrong tokens are counted by address, so each request comes from another one, by a proxy that is trusted. A signature that
    is there is made a good one; where the checker leaves it out it stays out."""
    number = next(numbers)
    request.headers["X-Forwarded-For"] = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    if request.headers.get(SIGNATURE):
        body = request.body or b""
        body = body.encode() if isinstance(body, str) else body
        at = str(int(time.time())).encode()
        mac = hmac.new(SECRET, at + b"." + body, hashlib.sha256).hexdigest()
        request.headers[SIGNATURE] = f"t={at.decode()},v1={mac}"
    return send(session, request, **options)


requests.Session.send = sent
