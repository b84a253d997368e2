// One order of the buyer: what it holds, until when it can be paid, paying (in a demonstration) and
// cancelling. The page is a shell; everything about the order comes from the API.

import { AddressFields, addressLine } from "./address.js";
import { everySecond, isSet, keepSynced, now, showSpan } from "./clock.js";
import { Problem, backoff, count, jittered, local, moment, money, pause, stored } from "./common.js";
import { byId, call, closeSession, offerPath, openSession, orderName, say, signInLink } from "./shop.js";
import { t } from "./texts.js";

const id = decodeURIComponent(location.pathname.split("/").filter(Boolean).pop() ?? "");
const path = `/api/v1/orders/${encodeURIComponent(id)}`;
const canPay = document.body.dataset.pay === "demo";
const HELD_POLL_MS = 4000;
const TRIES = 8;

// Badge, heading and what stands below it.
const VIEWS = {
  held: ["held", "held-heading", "held-text"],
  pending: ["pending", "pending-heading", "pending-text"],
  paid: ["paid", "paid-heading", "paid-text"],
  cancelled: ["cancelled", "cancelled-heading", "cancelled-text"],
  expired: ["expired", "expired-heading", "expired-text"],
  refunded: ["refunded", "refunded-heading", "refunded-text"],
  rejected: ["rejected", "rejected-heading", "rejected-text"],
};
// A payment beside the order's own changes nothing of the order: it is said beside what the order is.
const REFUNDS = { held: "refund-held", paid: "refund-paid" };

let order = null;
let title = null;
let busy = false;

function draw(fresh) {
  const before = order?.status;
  if (!order) say(byId("outcome"), "");
  // What changes an order does not say where it goes.
  order = order && "address" in order ? { address: order.address, ...fresh } : fresh;
  const view = order.status;
  const [badge, heading, lead] = VIEWS[view]?.map((text) => t(text)) ?? [view, t("your-order"), ""];
  byId("order").dataset.view = view;
  byId("badge").textContent = badge;
  byId("badge").hidden = false;
  byId("heading").textContent = heading;
  byId("lead").textContent = view === "held" && !canPay && !order.pay_url
    ? `${lead} ${t("shop-takes-payment")}` : lead;
  document.title = `${heading} · ${document.title.split(" · ").pop()}`;
  say(byId("refund"), refundText(order), "bad");
  drawFacts();
  drawAddress();
  const held = view === "held";
  const focusGoes = !held && byId("actions").contains(document.activeElement);
  byId("clock").hidden = !held || order.pay_by_ms === null;
  byId("actions").hidden = !held;
  byId("pay").hidden = !canPay;
  byId("pay-link").hidden = !order.pay_url;
  if (order.pay_url) {
    byId("pay-link").href = order.pay_url;
    byId("pay-link").textContent = t("pay-amount", { amount: money(order.amount, order.currency) });
  }
  tick();
  // The button under the focus is gone: its user is taken to the news. Others are told, and left alone.
  if (focusGoes) byId("heading").focus();
  else if (before && before !== view) say(byId("news"), heading);
}

function refundText({ status, amount, currency, refund_due: due, refunded = 0 }) {
  if (status === "refunded") return "";
  if (refunded > 0) return t("refund-part", { amount: money(amount, currency), refunded: money(refunded, currency) });
  return due ? t(REFUNDS[status] ?? "refund-other") : "";
}

function drawFacts() {
  byId("facts").hidden = false;
  const product = byId("product");
  product.textContent = title ?? t("product-of-sale", { product: order.product, sale: order.sale });
  product.href = offerPath(order.sale, order.product);
  byId("back").href = product.href;
  byId("back").textContent = t("back-to-product");
  byId("quantity").textContent = count(order.quantity);
  byId("unit-price").textContent = money(order.unit_price, order.currency);
  byId("amount").textContent = money(order.amount, order.currency);
  byId("pay").textContent = t("pay-amount-demo", { amount: money(order.amount, order.currency) });
  byId("placed").textContent = moment(order.placed_at_ms);
  // It has a number once it is in the ledger.
  byId("short").textContent = order.number ?? "";
  byId("short-for").hidden = !order.number;
  byId("id").textContent = order.id;
  byId("closed-row").hidden = order.closed_at_ms === null;
  byId("closed-label").textContent = t(VIEWS[order.status]?.[0] ?? "closed");
  if (order.closed_at_ms !== null) byId("closed").textContent = moment(order.closed_at_ms);
}

// The server says of an address only where the shop asks for it here.
function drawAddress() {
  const asked = order.address === null && ["held", "paid"].includes(order.status);
  const form = byId("ask-address");
  const focusGoes = form && !asked && form.contains(document.activeElement);
  if (form) form.hidden = !asked;
  byId("address-row").hidden = !order.address;
  if (order.address) byId("address-kept").textContent = addressLine(order.address);
  if (focusGoes) byId("heading").focus();
}

const payBy = () => order?.pay_by_ms ?? 0;

function tick() {
  byId("digits").hidden = !isSet();
  if (!isSet() || order?.status !== "held" || order.pay_by_ms === null) return;
  showSpan(byId("clock"), payBy() - now());
  if (now() >= payBy() && !busy) wake();
}

async function read() {
  await openSession();
  const fresh = await call("GET", path);
  // Without its title the order is still worth showing; the next look asks again.
  title ??= await titleOf(fresh).catch(() => null);
  draw(fresh);
}

// The browser that placed the order remembers the title; any other one asks the sale, which is public.
async function titleOf({ id, sale, product }) {
  const remembered = stored(orderName(sale, product));
  if (remembered?.id === id) return remembered.title;
  for (let cursor = 0; cursor !== null; ) {
    const page = await call("GET", `/api/v1/sales/${Number(sale)}?limit=200&cursor=${cursor}`);
    const found = page.items.find((item) => item.product === product);
    if (found) return found.title;
    cursor = page.items_next_cursor;
  }
  return null;
}

function lost(error) {
  if (!(error instanceof Problem) || ![401, 403, 404].includes(error.status)) return false;
  byId("order").dataset.view = "lost";
  say(byId("outcome"), "");
  byId("heading").textContent = t(error.status === 401 ? "sign-in-to-see" : "no-such-order");
  byId("lead").textContent = error.status === 401
    ? error.message
    : t("no-such-order-text");
  if (error.status === 401) byId("lead").append(...signInLink());
  return true;
}

let wake = () => {};

// A payment can come late, or twice: so a closed order is looked at too, seldom, and when its reader comes back.
async function follow() {
  for (let failures = 0; ; ) {
    let wait;
    try {
      if (!busy) await read();
      failures = 0;
      wait = jittered(document.hidden ? 30_000 : waitFor(order?.status));
    } catch (error) {
      failures += 1;
      if (error.status === 401) closeSession();
      if (lost(error) && (error.status !== 401 || failures > 1)) return;
      // Who is not known yet is asked again at once; only a shop that does not answer is said not to.
      if (!order && error.status !== 401) say(byId("outcome"), t("no-answer-yet"));
      wait = backoff(failures, error.retryAfterMs);
    }
    const woken = new Promise((now) => (wake = now));
    await Promise.all([Promise.race([pause(wait), woken]), pause(500)]);
  }
}

function waitFor(status) {
  if (status === "pending") return 1000;
  if (["paid", "cancelled", "refunded", "rejected"].includes(status)) return 120_000;
  return status === "expired" ? 20_000 : Math.min(HELD_POLL_MS, Math.max(300, isSet() ? payBy() - now() + 200 : HELD_POLL_MS));
}

// Paying and cancelling are safe to repeat: each changes an order at most once.
async function act(name, doing, { outcome = byId("outcome"), body } = {}) {
  if (busy) return;
  setBusy(true);
  say(outcome, doing);
  try {
    await repeat(`${path}/${name}`, outcome, body);
  } catch (error) {
    say(outcome, error.message, "bad");
  } finally {
    setBusy(false);
    wake();
  }
}

async function repeat(url, outcome, body) {
  for (let tries = 1; ; tries++) {
    try {
      await openSession();
      const changed = await call("POST", url, { body });
      say(outcome, "");
      return draw(changed);
    } catch (error) {
      const refused = error.status >= 400 && error.status < 500 && ![401, 408, 425, 429].includes(error.status);
      if (refused || tries === TRIES) throw error;
      if (error.status === 401) closeSession();
      say(outcome, t("no-answer-asking-again", { number: tries + 1 }));
      await pause(backoff(tries, error.retryAfterMs));
    }
  }
}

function setBusy(now) {
  busy = now;
  for (const button of [byId("pay"), byId("cancel"), byId("send-address")].filter(Boolean)) {
    button.setAttribute("aria-disabled", String(now));
    button.setAttribute("aria-busy", String(now));
  }
}

byId("pay").addEventListener("click", () => act("pay", t("paying")));
byId("cancel").addEventListener("click", () => busy || byId("sure").showModal());
byId("sure").addEventListener("close", () => {
  if (byId("sure").returnValue === "cancel") act("cancel", t("cancelling"));
  byId("sure").returnValue = "";
});
if (byId("ask-address")) {
  const address = new AddressFields(byId("ask-address"), byId("send-address"));
  byId("ask-address").addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = JSON.stringify(address.values());
    await act("address", t("sending-address"), { outcome: byId("address-outcome"), body });
    if (order.address) address.forget();
  });
}
document.addEventListener("visibilitychange", () => document.hidden || wake());
follow();
keepSynced(call, everySecond(payBy, tick));
