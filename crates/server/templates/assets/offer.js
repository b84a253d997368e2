// What the page of a product was rendered with, and its countdown. The page is the same for everybody and may come from a
// cache; nothing in it is trusted longer than until the first answer.

import { isSet, now, showSpan } from "./clock.js";
import { moment } from "./common.js";
import { buyer, byId, say } from "./shop.js";
import { t } from "./texts.js";

// More than our idea of the server's time can be wrong.
const CLOCK_ERROR_MS = 10_000;

let toldBefore = Infinity;

/** The product, as the page has it; and the page in its reader's time zone. */
export function readOffer() {
  for (const time of document.querySelectorAll("time[data-local]")) {
    time.textContent = moment(Date.parse(time.dateTime));
  }
  // Where a token says who orders, the address may name somebody else: then it is not repeated.
  const named = byId("member")?.dataset.member;
  if (named && buyer.startsWith("token") && buyer !== `token.${named}`) byId("member").hidden = true;
  const data = byId("offer").dataset;
  return {
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
}

// One that is paused before its start is still to come.
const isToCome = (offer, view) => view === "not_started" || (view === "paused" && now() < offer.startsAt);

/** What the clock of the page counts down to. */
export const nextMoment = (offer, view) => (isToCome(offer, view) ? offer.startsAt : offer.endsAt);

// Ended by hand, a sale has a time in the future that it never reached: that one is not shown.
export function drawCountdown(offer, view) {
  const target = nextMoment(offer, view);
  offer.endedEarly ||= view === "ended" && now() < offer.endsAt - CLOCK_ERROR_MS;
  const ended = offer.endedEarly ? "ended-early" : "ended";
  byId("clock-label").textContent = t(isToCome(offer, view) ? "starts" : view === "ended" ? ended : "ends");
  byId("clock-time").textContent = moment(target);
  byId("clock-time").hidden = view === "ended" && offer.endedEarly;
  byId("digits").hidden = view === "ended";
  if (!isSet()) return;
  showSpan(byId("digits"), target - now());
  if (view === "not_started") announceStart(offer.startsAt - now());
}

function announceStart(left) {
  for (const [ms, text] of [[60_000, "starts-in-a-minute"], [10_000, "starts-in-ten-seconds"]]) {
    if (left <= ms && toldBefore > ms && left > ms - 1500) say(byId("status"), t(text));
  }
  toldBefore = left;
}
