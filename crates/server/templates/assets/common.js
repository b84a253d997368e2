// What our pages and the buy button, which lives in pages of the shop, have in common: a request to the API and how long to
// wait before the next one, what is kept in the browser, and money, numbers and times as text.

import { dateLocale, numberLocale, t } from "./texts.js";

const TIMEOUT_MS = 10_000;

/** An answer of the API that is no success: RFC 9457, or the bare status if the body is something else. */
export class Problem extends Error {
  constructor(status, body, retryAfterMs) {
    super(body.detail || body.title || t("server-answered", { status }));
    this.status = status;
    this.code = body.code || "";
    this.challenge = body.challenge;
    this.opensAtMs = body.opens_at_ms;
    this.unitPrice = body.unit_price;
    this.retryAfterMs = retryAfterMs;
  }
}

/** No answer, or half of one: whatever was asked for may have happened, or not. */
export class NoAnswer extends Error {}

/** Resolves to the parsed body, or null; rejects with `Problem` or `NoAnswer`. */
export async function request(method, url, { body, key, token, headers, credentials = "omit" } = {}) {
  const sent = { accept: "application/json, application/problem+json", ...headers };
  if (body !== undefined) sent["content-type"] = "application/json";
  if (key) sent["idempotency-key"] = key;
  if (token) sent.authorization = `Bearer ${token}`;
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), TIMEOUT_MS);
  try {
    const response = await fetch(url, {
      method, headers: sent, body, cache: "no-store", credentials, signal: limit.signal,
    });
    const text = await response.text();
    if (response.ok) return text ? JSON.parse(text) : null;
    throw new Problem(response.status, parsedOrNull(text) ?? {}, retryAfter(response));
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new NoAnswer(t("no-answer"), { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

export function parsedOrNull(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** What a token says, unchecked; null if it is none. `part`: 0 its head, 1 its claims. */
export function tokenPart(token, part) {
  try {
    return JSON.parse(atob(token.split(".")[part].replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return null;
  }
}

function retryAfter(response) {
  const seconds = Number.parseFloat(response.headers.get("retry-after"));
  return seconds >= 0 ? seconds * 1000 : null;
}

export const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** A third of `ms` more or less, at random: a crowd must not come back in step. */
export const jittered = (ms) => ms * (2 + 2 * Math.random()) / 3;

/** How long to wait before try number `tries` + 1: what the server asked for, or doubling up to 8 s. */
export function backoff(tries, retryAfterMs) {
  const asked = retryAfterMs ?? 0;
  return Math.max(asked, 0) + jittered(Math.min(400 * 2 ** (tries - 1), 8000)) * (asked ? 0.25 : 1);
}

/**
 * Asks for as long as the page is open: `delay()` after each answer; while there is none, ever more seldom. Returns what asks at
 * once. `wait`: how to pause.
 */
export function keepAsking(ask, delay, failingMax = 30_000, wait = pause) {
  let wake = () => {};
  (async () => {
    for (let failures = 0; ; ) {
      let ms;
      try {
        await ask();
        failures = 0;
        ms = delay();
      } catch (error) {
        failures += 1;
        ms = Math.max(error.retryAfterMs ?? 0, jittered(Math.min(1000 * 2 ** failures, failingMax)));
      }
      await Promise.race([wait(ms), new Promise((now) => (wake = now))]);
    }
  })();
  return () => wake();
}

/** Storage that a browser may refuse (private windows, full disk): then it lasts as long as the page. */
function storage(kind) {
  const spare = new Map();
  const real = (act) => {
    try {
      return act(window[kind]);
    } catch {
      return undefined;
    }
  };
  return {
    get: (name) => spare.get(name) ?? real((s) => s.getItem(name)) ?? null,
    set(name, value) {
      if (real((s) => (s.setItem(name, value), true))) spare.delete(name);
      else spare.set(name, value);
    },
    remove(name) {
      spare.delete(name);
      real((s) => s.removeItem(name));
    },
  };
}

export const local = storage("localStorage");
export const session = storage("sessionStorage");

export const stored = (name) => parsedOrNull(local.get(name));

/** Minor units as text: 499900, "EUR" is "€4,999.00". */
export function money(minor, currency) {
  const format = new Intl.NumberFormat(numberLocale, { style: "currency", currency });
  return format.format(minor / 10 ** format.resolvedOptions().maximumFractionDigits);
}

export const count = (number) => new Intl.NumberFormat(numberLocale).format(number);
export const units = (number) => t("units", { count: number, text: count(number) });

/** A moment in the reader's own time zone. */
export function moment(ms) {
  return new Intl.DateTimeFormat(dateLocale, {
    day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
  }).format(ms);
}

/** A moment of today, to the second. */
export const timeOfDay = (ms) => new Intl.DateTimeFormat(dateLocale, { timeStyle: "medium" }).format(ms);
