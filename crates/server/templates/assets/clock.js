// The server's clock, as near as the network lets us know it, and countdowns by it. The device's own clock
// is used only for how fast time passes, never for what time it is: it may be minutes off.

import { jittered, pause } from "./common.js";
import { t } from "./texts.js";

const SAMPLES = 5;
const SYNC_MS = 60_000;

// Server time minus `performance.now()`.
let offset = null;
let bestTrip = Infinity;

/** Has the server told us the time? Before that no page may claim that a sale has started or ended. */
export const isSet = () => offset !== null;

/** The server's time in milliseconds; until it is known, the device's guess. */
export const now = () => (isSet() ? performance.now() + offset : Date.now());

/**
 * Takes in one answer that carried the server's time. The answer was made somewhere between sending and
 * receiving: assuming the middle is wrong by at most half of the round trip, so the shortest trip wins.
 */
export function observe(serverMs, sentAt, receivedAt) {
  const trip = receivedAt - sentAt;
  if (trip > bestTrip) return;
  bestTrip = trip;
  offset = serverMs + trip / 2 - receivedAt;
}

async function sample(call) {
  const sentAt = performance.now();
  const { now_ms } = await call("GET", "/api/v1/time");
  observe(now_ms, sentAt, performance.now());
}

/** Several samples, the best of which holds; earlier ones are forgotten, for clocks drift and devices sleep. */
async function sync(call) {
  bestTrip = Infinity;
  for (let i = 0; i < SAMPLES; i++) {
    await sample(call);
    await pause(jittered(80));
  }
}

/** Keeps the clock right for as long as the page is open. `call` asks the server; `changed` is called after each round. */
export async function keepSynced(call, changed, every = SYNC_MS) {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) sync(call).then(changed, () => {});
  });
  for (;;) {
    let wait = every;
    try {
      await sync(call);
      changed();
    } catch (error) {
      wait = Math.max(2000, error.retryAfterMs ?? 0);
    }
    await pause(jittered(wait));
  }
}

/** Calls `tick` now and at each full second that remains until `target()`, and at the target itself. */
export function everySecond(target, tick) {
  let timer = 0;
  const run = () => {
    clearTimeout(timer);
    tick();
    const left = target() - now();
    const next = left > 0 ? left % 1000 || 1000 : 1000;
    timer = setTimeout(run, Math.max(next, 20));
  };
  run();
  return run;
}

/**
 * Writes a span of time into the `data-unit` elements of `root`; only those that changed. Days and hours are
 * left out while there are none: minutes and seconds are what people watch.
 */
export function showSpan(root, ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const parts = {
    days: Math.floor(seconds / 86_400),
    hours: Math.floor(seconds / 3600) % 24,
    minutes: Math.floor(seconds / 60) % 60,
    seconds: seconds % 60,
  };
  let leading = true;
  for (const unit of root.querySelectorAll("[data-unit]")) {
    const name = unit.dataset.unit;
    leading &&= parts[name] === 0 && name !== "minutes" && name !== "seconds";
    unit.parentElement.hidden = leading;
    const text = name === "days" ? String(parts.days) : String(parts[name]).padStart(2, "0");
    if (unit.textContent !== text) unit.textContent = text;
  }
}

/** A span in words, for one line of text: "2 d 4 h", "4 min 10 s". */
export function spanText(ms) {
  const all = Math.max(0, Math.ceil(ms / 1000));
  const [seconds, minutes, hours, days] = [all % 60, Math.floor(all / 60) % 60, Math.floor(all / 3600) % 24, Math.floor(all / 86_400)];
  if (days > 0) return t("span-days", { days, hours });
  if (hours > 0) return t("span-hours", { hours, minutes });
  if (minutes > 0) return t("span-minutes", { minutes, seconds });
  return t("span-seconds", { seconds });
}
