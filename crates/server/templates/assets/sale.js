// The page of a product in a sale: which state it is in, by the server's clock and stock, and when that
// changes. The page itself is the same for everybody and may come from a cache; nothing in it is trusted
// longer than until the first answer.

import { Checkout } from "./buy.js";
import { everySecond, isSet, keepSynced, now, observe, showSpan } from "./clock.js";
import { count, jittered, moment, pause, timeOfDay, units } from "./common.js";
import { buyer, byId, call, isConnected, say } from "./shop.js";
import { VIEWS, pollDelay, take, viewOf } from "./state.js";
import { t } from "./texts.js";

const data = byId("offer").dataset;
const offer = {
  sale: Number(data.sale),
  product: Number(data.product),
  price: Number(data.price),
  currency: data.currency,
  phase: data.state,
  total: Number(data.total),
  available: Number(data.available),
  startsAt: Number(data.startsAt),
  endsAt: Number(data.endsAt),
  endedEarly: data.early !== undefined,
  // False until the server has reported the stock: what the page was rendered with may be hours old.
  known: false,
};

// More than our idea of the server's time can be wrong.
const CLOCK_ERROR_MS = 10_000;

let view = "";

function draw() {
  const next = viewOf(offer);
  if (next !== view) change(next);
  const target = view === "not_started" ? offer.startsAt : offer.endsAt;
  drawClock(target);
  byId("digits").hidden = view === "ended";
  if (!isSet()) return;
  showSpan(byId("digits"), target - now());
  announceStart(offer.startsAt - now());
}

function change(next) {
  const before = view;
  view = next;
  data.view = view;
  byId("badge").textContent = VIEWS[view].badge;
  checkout.setOpen(view === "live" || view === "few", VIEWS[view].button);
  byId("ready").hidden = view !== "not_started";
  if (view === "ended") byId("buy-title").textContent = t("buy-title-ended");
  drawStock();
  say(byId("status"), statusText(before));
  // What the badge shows already is said, not shown a second time.
  const shown = before === "sold_out" || !["live", "few"].includes(view);
  byId("status").classList.toggle("hidden", !shown);
}

// Ended by hand, a sale has a time in the future that it never reached: that one is not shown.
function drawClock(target) {
  offer.endedEarly ||= view === "ended" && now() < offer.endsAt - CLOCK_ERROR_MS;
  const ended = offer.endedEarly ? "ended-early" : "ended";
  byId("clock-label").textContent = t({ not_started: "starts", ended }[view] ?? "ends");
  byId("clock-time").textContent = moment(target);
  byId("clock-time").hidden = view === "ended" && offer.endedEarly;
}

// At load the page speaks for itself; later a change is told to those who can't see it.
function statusText(before) {
  if (view === "sold_out") return t("said-sold-out");
  if (before === "sold_out" && offer.available > 0) return t("units-back", { left: units(offer.available) });
  if (view === "paused") return VIEWS.paused.said;
  return before ? VIEWS[view].said ?? "" : "";
}

function drawStock() {
  const running = offer.known && !["not_started", "ended"].includes(view);
  const bar = byId("bar");
  bar.max = Math.max(offer.total, 1);
  bar.value = running ? offer.available : view === "ended" ? 0 : offer.total;
  const left = { left: count(offer.available), total: units(offer.total) };
  const time = () => timeOfDay(Date.now() - (performance.now() - offer.askedAt));
  byId("left").textContent = !running ? t("units-in-sale", { count: offer.total, text: count(offer.total) })
    : isConnected ? t("left-of", left) : t("left-of-at", { ...left, time: time() });
  if (offer.known) checkout.setAvailable(offer.available);
}

let toldBefore = Infinity;

function announceStart(left) {
  if (view !== "not_started") return;
  for (const [ms, text] of [[60_000, "starts-in-a-minute"], [10_000, "starts-in-ten-seconds"]]) {
    if (left <= ms && toldBefore > ms && left > ms - 1500) say(byId("status"), t(text));
  }
  toldBefore = left;
}

async function ask() {
  const sentAt = performance.now();
  const stock = await call("GET", `/api/v1/stock?sale=${offer.sale}&product=${offer.product}`);
  observe(stock.now_ms, sentAt, performance.now());
  take(offer, stock, sentAt);
  draw();
  drawStock();
  checkout.observed(sentAt);
}

let wake = () => {};

async function pollForEver() {
  for (let failures = 0; ; ) {
    let wait;
    try {
      await ask();
      failures = 0;
      wait = jittered(pollDelay(view, offer.startsAt));
    } catch (error) {
      failures += 1;
      wait = Math.max(error.retryAfterMs ?? 0, jittered(Math.min(1000 * 2 ** failures, 30_000)));
    }
    await Promise.race([pause(wait), new Promise((now) => (wake = now))]);
  }
}

for (const time of document.querySelectorAll("time[data-local]")) {
  time.textContent = moment(Date.parse(time.dateTime));
}
// Where a token says who orders, the address may name somebody else: then it is not repeated.
const named = byId("member")?.dataset.member;
if (named && buyer.startsWith("token") && buyer !== `token.${named}`) byId("member").hidden = true;
const checkout = new Checkout(offer, () => wake());
const tick = everySecond(() => (view === "not_started" ? offer.startsAt : offer.endsAt), draw);
keepSynced(call, tick);
pollForEver();
document.addEventListener("visibilitychange", () => document.hidden || wake());
addEventListener("connection", drawStock);
addEventListener("online", () => wake());
