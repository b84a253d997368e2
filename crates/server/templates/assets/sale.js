// The page of a product in a sale: which state it is in, by the server's clock and stock, and when that changes.

import { Checkout } from "./buy.js";
import { everySecond, keepSynced, observe } from "./clock.js";
import { count, jittered, keepAsking, timeOfDay, units } from "./common.js";
import { drawCountdown, nextMoment, readOffer } from "./offer.js";
import { byId, call, isConnected, say } from "./shop.js";
import { VIEWS, pollDelay, take, viewOf } from "./state.js";
import { t } from "./texts.js";

const offer = readOffer();

let view = "";

function draw() {
  const next = viewOf(offer);
  if (next !== view) change(next);
  drawCountdown(offer, view);
}

function change(next) {
  const before = view;
  view = next;
  byId("offer").dataset.view = view;
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

async function ask() {
  const sentAt = performance.now();
  const stock = await call("GET", `/api/v1/stock?sale=${offer.sale}&product=${offer.product}`);
  observe(stock.now_ms, sentAt, performance.now());
  take(offer, stock, sentAt);
  draw();
  drawStock();
  checkout.observed(sentAt);
}

const checkout = new Checkout(offer, () => wake());
const tick = everySecond(() => nextMoment(offer, view), draw);
keepSynced(call, tick);
const wake = keepAsking(ask, () => jittered(pollDelay(view, offer.startsAt)));
document.addEventListener("visibilitychange", () => document.hidden || wake());
addEventListener("connection", drawStock);
addEventListener("online", () => wake());
