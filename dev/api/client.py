"""A generated client at work: places, reads, pays and cancels orders, and reads what is refused."""

import json
import sys

import doorbuster_client as doorbuster

SALE, PRODUCT = 3, 29

configuration = doorbuster.Configuration(host=sys.argv[1])
with doorbuster.ApiClient(configuration, header_name="memberId", header_value="4003") as client:
    orders = doorbuster.OrdersApi(client)
    assert doorbuster.SalesApi(client).list_sales(limit=50).sales

    def place():
        order = orders.place_order(doorbuster.OrderRequest(sale=SALE, product=PRODUCT))
        assert order.status == "held" and order.closed_at_ms is None, order
        return order

    read = orders.get_order(place().id)
    assert read.product == PRODUCT and read.pay_by_ms > read.placed_at_ms, read
    paid = orders.pay_demo_order(read.id)
    assert paid.status == "paid" and paid.closed_at_ms is not None, paid
    cancelled = orders.cancel_order(place().id)
    assert cancelled.status == "cancelled", cancelled
    try:
        orders.cancel_order(paid.id)
        raise SystemExit("not so: what is paid is not cancelled")
    except doorbuster.ApiException as refused:
        assert refused.status == 409 and json.loads(refused.body)["code"] == "not_cancellable", refused
