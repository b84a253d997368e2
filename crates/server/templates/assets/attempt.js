// One attempt to order: a key and the exact body that goes with it. It is repeated, never remade, until the server has said
// what became of it: the server gives the first answer again to a repeated key, so a lost answer costs nothing.

import { Problem, backoff, moment, pause } from "./common.js";
import { t } from "./texts.js";

// After this long without a verdict we stop asking by ourselves; the attempt stays, the button resumes it.
const PATIENCE_MS = 180_000;
const REFUSALS = {
  sold_out: "refused-sold-out",
  not_enough_left: "refused-not-enough-left",
  not_started: "refused-not-started",
  ended: "refused-ended",
  paused: "refused-paused",
  over_limit: "refused-over-limit",
  price_changed: "refused-price-changed",
  cooling_down: "refused-cooling-down",
  too_many_holds: "refused-too-many-holds",
  holds_used_up: "refused-holds-used-up",
  turn_required: "refused-turn-required",
  line_full: "refused-line-full",
  no_line: "refused-no-line",
  line_opens_later: "refused-line-opens-later",
  line_not_open: "refused-line-not-open",
  verification_required: "refused-verification-required",
  verification_token_required: "refused-verification-token-required",
  unknown_sku: "refused-unknown-sku",
};

export function refusalText(error) {
  const text = REFUSALS[error.code];
  if (!text) return error.message;
  return error.opensAtMs ? t(text, { time: moment(error.opensAtMs) }) : t(text);
}

/**
 * Repeats an attempt until there is a verdict: `{ order }`, `{ refusal }` or `{ unauthorized }`; `{}` if our patience ended
 * before. `send` asks once; `renew` may get another session, and says whether that can help; `progress` is told why it goes on;
 * `isWhole` knows an answer.
 */
export async function settle({ send, renew, progress, isWhole = (order) => Boolean(order?.id) }) {
  const giveUpAt = Date.now() + PATIENCE_MS;
  let strange = 0;
  for (let tries = 1; ; tries++) {
    let wait;
    try {
      const order = await send();
      if (isWhole(order)) return { order };
      wait = backoff(tries);
      progress(t("excuse-cut-short"), tries);
    } catch (error) {
      if (isRefusal(error)) return { refusal: error };
      if (error.status === 401 && (++strange > 1 || !renew())) return { unauthorized: error };
      wait = backoff(tries, error.retryAfterMs);
      progress(excuse(error), tries);
    }
    if (Date.now() + wait > giveUpAt) return {};
    await pause(wait);
  }
}

/** A 4xx is a verdict: nothing was ordered. Except that we must sign in, hurry less, or send it again. */
function isRefusal(error) {
  const { code, status } = error;
  // Who has to wait is told so: an order that places itself a minute later is none that anybody meant.
  if (code === "cooling_down") return true;
  return error instanceof Problem && status >= 400 && status < 500 && ![401, 408, 425, 429].includes(status);
}

function excuse(error) {
  if (error.status === 401) return t("excuse-not-recognised");
  if (error.status === 429 || error.code === "busy") return t("excuse-busy");
  if (error.code === "outcome_unknown") return t("excuse-unknown");
  return t("excuse-lost");
}

/** One page at a time does this. */
export function exclusively(name, act) {
  // Only secure contexts have locks; elsewhere the stored attempt alone has to do.
  return navigator.locks ? navigator.locks.request(name, act) : act();
}

export function newKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
