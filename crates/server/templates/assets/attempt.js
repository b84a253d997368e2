// One attempt to order: a key and the exact body that goes with it. It is repeated, never remade, until the server has said
// what became of it: the server gives the first answer again to a repeated key, so a lost answer costs nothing.

import { Problem, backoff, pause } from "./common.js";

// After this long without a verdict we stop asking by ourselves; the attempt stays, the button resumes it.
const PATIENCE_MS = 180_000;
const REFUSALS = {
  sold_out: "Just sold out. If units come back, this page will notice: keep it open.",
  not_enough_left: "Fewer units are left than you asked for. Try a smaller quantity.",
  not_started: "The sale has not started yet. Nothing was ordered.",
  ended: "The sale is over. Nothing was ordered.",
  paused: "The sale is paused. Nothing was ordered; try again when it goes on.",
  over_limit: "You have reached the limit per person for this product.",
  cooling_down: "Too many of your orders were cancelled or not paid. Wait a moment before the next one.",
  too_many_holds: "You have too many unpaid orders. Pay or cancel one first.",
  unknown_sku: "This product is not in the sale any more.",
};

export const refusalText = (error) => REFUSALS[error.code] ?? error.message;

/**
 * Repeats an attempt until there is a verdict: `{ order }`, `{ refusal }` or `{ unauthorized }`; `{}` if our patience ended
 * before. `send` asks once; `renew` may get another session, and says whether that can help; `progress` is told why it goes on.
 */
export async function settle({ send, renew, progress }) {
  const giveUpAt = Date.now() + PATIENCE_MS;
  let strange = 0;
  for (let tries = 1; ; tries++) {
    let wait;
    try {
      const order = await send();
      if (order?.id) return { order };
      wait = backoff(tries);
      progress("The shop's answer was cut short", tries);
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
  if (error.status === 401) return "The shop did not recognise you";
  if (error.status === 429 || error.code === "busy") return "The shop is very busy";
  if (error.code === "outcome_unknown") return "The shop can't tell yet whether your order went through";
  return "The shop's answer got lost";
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
