// Which state an offer (a product in a sale) is in, by the server's clock and stock. `phase` is the server's word.

import { isSet, now } from "./clock.js";
import { t } from "./texts.js";

export const VIEWS = {
  not_started: { badge: t("badge-starts-soon"), button: t("not-open-yet") },
  live: { badge: t("badge-live"), button: t("buy-now"), said: t("said-live") },
  few: { badge: t("badge-almost-gone"), button: t("buy-now"), said: t("said-few") },
  sold_out: { badge: t("badge-sold-out"), button: t("badge-sold-out") },
  paused: { badge: t("badge-paused"), button: t("badge-paused"), said: t("said-paused") },
  ended: { badge: t("badge-ended"), button: t("sale-ended"), said: t("said-ended") },
};

/** The start and the end need no answer from the server. `known`: the server has reported the stock. */
export function viewOf({ phase, startsAt, endsAt, available, total, known }) {
  if (!isSet()) return phase;
  const time = now();
  if (phase === "ended" || time >= endsAt) return "ended";
  if (phase === "paused") return "paused";
  if (time < startsAt) return "not_started";
  if (available === 0) return "sold_out";
  if (!known) return "live";
  const few = available <= Math.max(10, total / 10);
  return few && available < total ? "few" : "live";
}

/** The stock as the server answered it, to a question of `askedAt`. */
export function take(offer, stock, askedAt) {
  Object.assign(offer, {
    phase: stock.state,
    available: stock.available,
    total: stock.total,
    startsAt: stock.starts_at_ms,
    endsAt: stock.ends_at_ms,
    known: true,
    askedAt,
  });
}

/** How long until the stock is worth asking for again. */
export function pollDelay(view, startsAt) {
  if (document.hidden) return 30_000;
  const startsIn = startsAt - now();
  if (view === "ended") return 60_000;
  if (view === "not_started" && startsIn > 15_000) return Math.min(startsIn - 10_000, 20_000);
  if (view === "paused") return 3000;
  return 1500;
}
