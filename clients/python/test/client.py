"""At a running demo, and at proxies in front of it; see crates/doorbuster/tests/it/clients.rs, which starts them.

python test/client.py '{"url": .., "loses_two": .., "loses_all": .., "turns_away": .., "operator": .., "payment_secret": ..}'
"""

import json
import sys
import time

from doorbuster import Done, Doorbuster, NotRead, Refused, Unanswered, Unknown

at = json.loads(sys.argv[1])
ORDER = {"sale": 3, "product": 29}
operator = Doorbuster(at["url"], token=at["operator"])
secret = at["payment_secret"].encode()


def buyer(member: int, url: str = at["url"], **more) -> Doorbuster:
    return Doorbuster(url, headers={"memberId": str(member)}, **more)


def orders_of(member: int) -> list[str]:
    return [order["id"] for order in operator.changes(0, 5000)["orders"] if order["buyer"] == str(member)]


def error_of(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"not {kind}")


direct = buyer(6001)
placed = direct.place_order(ORDER)
assert isinstance(placed, Done) and placed.value["status"] == "held", placed
assert direct.order(placed.value["id"])["id"] == placed.value["id"]
assert direct.sale(3)["id"] == 3

# Two answers are lost: the third is the same order.
assert isinstance(buyer(6002, at["loses_two"]).place_order(ORDER), Done)
assert len(orders_of(6002)) == 1

# All are: what became of it is not known, and learnt with the key.
cut = buyer(6003, at["loses_all"], call_s=1.5)
lost = cut.place_order(ORDER, "kept")
assert isinstance(lost, Unknown) and lost.key == "kept", lost
error_of(Unanswered, lambda: cut.sale(3))
asked = buyer(6003).place_order(ORDER, "kept")
assert isinstance(asked, Done) and orders_of(6003) == [asked.value["id"]], asked

# 429 with Retry-After: 1, and then the order; and, where there is no time for that, a refusal.
started = time.monotonic()
assert isinstance(buyer(6004, at["turns_away"]).place_order(ORDER), Done)
assert time.monotonic() - started >= 1.0, "it came again when it was asked to"
hurried = buyer(6005, at["turns_away"], call_s=0.5).place_order(ORDER)
assert isinstance(hurried, Refused) and hurried.status == 429, hurried
assert orders_of(6005) == []

nowhere = direct.place_order({"sale": 3, "product": 999_999})
assert isinstance(nowhere, Refused) and nowhere.status == 404, nowhere
assert error_of(NotRead, lambda: direct.order("0" * 40)).refused.status == 404

cancelled = direct.cancel_order(placed.value["id"])
assert isinstance(cancelled, Done) and cancelled.value["status"] == "cancelled", cancelled
payment = {"payment_id": "py-1", "order": asked.value["id"], "amount": asked.value["amount"]}
paid = direct.report_payment(payment, secret)
assert isinstance(paid, Done) and paid.value["result"] == "paid", paid
forged = direct.report_payment(payment | {"payment_id": "py-2"}, b"another secret, of as many bytes")
assert isinstance(forged, Refused) and forged.code == "invalid_signature", forged
twice = direct.report_payment(payment | {"payment_id": "py-3"}, secret)
assert isinstance(twice, Done) and twice.value["reason"] == "already_paid", twice
settled = operator.settle_refund("py-3")
assert isinstance(settled, Done) and settled.value["result"] == "settled", settled
print("python: as it should")
