// What every page needs: calls to the API with the buyer's session, storage, money and times as text.

const SESSION = document.body.dataset.session;
const CALL_TIMEOUT_MS = 10_000;
const TOKEN_NAME = "doorbuster.token";
// A form of the shop leaves the session in a cookie that no script can read, and beside it whose it is.
const SIGN = /(?:^|; )doorbuster_session=([^;]+)/;

export const byId = (id) => document.getElementById(id);

/** An answer of the API that is no success: RFC 9457, or the bare status if the body is something else. */
export class Problem extends Error {
  constructor(status, body, retryAfterMs) {
    super(body.detail || body.title || `The server answered ${status}.`);
    this.status = status;
    this.code = body.code || "";
    this.retryAfterMs = retryAfterMs;
  }
}

/** No answer, or half of one: whatever was asked for may have happened, or not. */
export class NoAnswer extends Error {}

/** Text of a live region: set only when it changes, so that nothing is read out twice. */
export function say(element, text, kind = "") {
  element.classList.toggle("bad", kind === "bad");
  element.classList.toggle("good", kind === "good");
  if (element.textContent !== text) element.textContent = text;
}

// The token arrives in the fragment, which no server log sees, and leaves the address bar at once.
function takeToken() {
  const handed = new URLSearchParams(location.hash.slice(1)).get("token");
  if (handed) {
    session.set(TOKEN_NAME, handed);
    history.replaceState(history.state, "", location.pathname + location.search);
  }
  return session.get(TOKEN_NAME);
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
let token = SESSION === "token" ? takeToken() : null;
const signedInAs = SESSION === "token" ? SIGN.exec(document.cookie)?.[1] ?? null : null;

// A page whose address names a member (`?memberId=`, as the published product page has it) acts as that member
// in a demonstration, where anybody may be anybody. Elsewhere an address decides nothing.
const member = (() => {
  const named = new URLSearchParams(location.search).get("memberId") ?? "";
  return SESSION === "demo" && /^\d{1,19}$/.test(named) ? named : null;
})();

/** Names the buyer in stored keys: one buyer's unresolved order must never be repeated for another. */
export const buyer = (() => {
  if (member) return `${SESSION}.${member}`;
  if (SESSION !== "token") return SESSION;
  if (!token && signedInAs) return `token.${signedInAs}`;
  try {
    const claims = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    return `token.${JSON.parse(atob(claims)).sub}`;
  } catch {
    return "token";
  }
})();

let opening = null;

/** Makes sure that the server will know this buyer. Rejects with a 401 problem if it can't. */
export function openSession() {
  if (!isSignedIn()) {
    return Promise.reject(new Problem(401, { code: "unauthorized", detail: "Sign in at the shop first." }));
  }
  if (SESSION !== "demo" || member) return Promise.resolve();
  opening ??= call("POST", "/api/v1/demo/session").catch((error) => {
    opening = null;
    // A refusal here is about the session; it says nothing about any order.
    if (error.status >= 400 && error.status < 500 && error.status !== 429) {
      throw new Problem(401, { code: "unauthorized", detail: error.message });
    }
    throw error;
  });
  return opening;
}

/** The server did not know us: the next `openSession` asks it again. Returns whether that can help. */
export function closeSession() {
  opening = null;
  if (token && signedInAs) {
    // The token of an earlier visit stood before the session.
    token = null;
    session.remove(TOKEN_NAME);
    return true;
  }
  return SESSION === "demo" && !member;
}

/** Without a token there is nobody to order for, and nothing worth sending. */
export const isSignedIn = () => SESSION !== "token" || Boolean(token || signedInAs);

/** The pages that this one leads to; they go on as the same member. */
export const orderPath = (id) => `/orders/${encodeURIComponent(id)}${member ? `?memberId=${member}` : ""}`;
export const offerPath = (sale, product) => (member
  ? `/product?flashPromotionId=${Number(sale)}&promotionProductId=${Number(product)}&memberId=${member}`
  : `/seckill_${Number(sale)}_${Number(product)}.html`);

/** Where this buyer's latest order of a product is remembered: id, title, and when it was placed. */
export const orderName = (sale, product) => `doorbuster.order.${buyer}.${sale}.${product}`;

/** One request. Resolves to the parsed body, or null; rejects with `Problem` or `NoAnswer`. */
export async function call(method, path, { body, key } = {}) {
  const headers = { accept: "application/json, application/problem+json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers["idempotency-key"] = key;
  if (member) headers.memberid = member;
  if (token) headers.authorization = `Bearer ${token}`;
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), CALL_TIMEOUT_MS);
  try {
    const response = await fetch(path, {
      method, headers, body, cache: "no-store", credentials: "same-origin", signal: limit.signal,
    });
    const text = await response.text();
    if (response.ok) return text ? JSON.parse(text) : null;
    throw new Problem(response.status, parsedOrNull(text) ?? {}, retryAfter(response));
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new NoAnswer("No answer from the shop.", { cause: error });
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

/** Minor units as text: 499900, "EUR" is "€4,999.00". */
export function money(minor, currency) {
  const format = new Intl.NumberFormat("en", { style: "currency", currency });
  return format.format(minor / 10 ** format.resolvedOptions().maximumFractionDigits);
}

export const count = (number) => new Intl.NumberFormat("en").format(number);
export const units = (number) => `${count(number)} ${number === 1 ? "unit" : "units"}`;

/** A moment in the reader's own time zone. */
export function moment(ms) {
  return new Intl.DateTimeFormat("en-GB", {
    day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short",
  }).format(ms);
}
