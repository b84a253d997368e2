// At a running demo, and at proxies in front of it; see crates/doorbuster/tests/it/clients.rs, which starts them.
//   node test/client.mjs '{"url": .., "loses_two": .., "loses_all": .., "turns_away": .., "operator": .., "payment_secret": ..}'
import assert from "node:assert/strict";

import { Doorbuster, Refused, Unanswered } from "../dist/index.js";

const at = JSON.parse(process.argv[2]);
const order = { sale: 3, product: 29 };
const member = (number) => ({ headers: { memberId: String(number) } });
const operator = new Doorbuster({ url: at.url, token: at.operator });
const ordersOf = async (buyer) => (await operator.changes(0, 5_000)).orders.filter((order) => order.buyer === String(buyer));

const direct = new Doorbuster({ url: at.url, ...member(5001) });
const placed = await direct.placeOrder(order);
assert.equal(placed.outcome, "done");
assert.equal(placed.value.status, "held");
assert.equal((await direct.order(placed.value.id)).id, placed.value.id);
assert.equal((await direct.sale(3)).id, 3);

// Two answers are lost: the third is the same order.
const lossy = new Doorbuster({ url: at.loses_two, ...member(5002) });
assert.equal((await lossy.placeOrder(order)).outcome, "done");
assert.equal((await ordersOf(5002)).length, 1);

// All are: what became of it is not known, and learnt with the key.
const cut = new Doorbuster({ url: at.loses_all, callMs: 1_500, ...member(5003) });
const lost = await cut.placeOrder(order, "kept");
assert.deepEqual([lost.outcome, lost.key], ["unknown", "kept"]);
await assert.rejects(cut.sale(3), Unanswered);
const asked = await new Doorbuster({ url: at.url, ...member(5003) }).placeOrder(order, "kept");
assert.equal(asked.outcome, "done");
assert.deepEqual((await ordersOf(5003)).map((order) => order.id), [asked.value.id]);

// 429 with Retry-After: 1, and then the order; and, where there is no time for that, a refusal.
const started = Date.now();
assert.equal((await new Doorbuster({ url: at.turns_away, ...member(5004) }).placeOrder(order)).outcome, "done");
assert.ok(Date.now() - started >= 1_000, "it came again when it was asked to");
const hurried = await new Doorbuster({ url: at.turns_away, callMs: 500, ...member(5005) }).placeOrder(order);
assert.deepEqual([hurried.outcome, hurried.status], ["refused", 429]);
assert.equal((await ordersOf(5005)).length, 0);

const nowhere = await direct.placeOrder({ sale: 3, product: 999_999 });
assert.deepEqual([nowhere.outcome, nowhere.status], ["refused", 404]);
await assert.rejects(direct.order("0".repeat(40)), (error) => error instanceof Refused && error.status === 404);

const cancelled = await direct.cancelOrder(placed.value.id);
assert.deepEqual([cancelled.outcome, cancelled.value.status], ["done", "cancelled"]);
const bought = asked.value;
const payment = { payment_id: "ts-1", order: bought.id, amount: bought.amount };
const paid = await direct.reportPayment(payment, at.payment_secret);
assert.deepEqual([paid.outcome, paid.value.result], ["done", "paid"]);
const forged = await direct.reportPayment({ ...payment, payment_id: "ts-2" }, "another secret, of as many bytes");
assert.deepEqual([forged.outcome, forged.code], ["refused", "invalid_signature"]);
const twice = await direct.reportPayment({ ...payment, payment_id: "ts-3" }, at.payment_secret);
assert.deepEqual([twice.value.result, twice.value.reason], ["refund_due", "already_paid"]);
assert.equal((await operator.settleRefund("ts-3")).value.result, "settled");
console.log("typescript: as it should");
