// What every page needs: calls to the API with the buyer's session, and what this browser knows of the buyer's orders.

import { Problem, local, request, session, stored, tokenPart } from "./common.js";
import { t } from "./texts.js";

const SESSION = document.body.dataset.session;
const TOKEN_NAME = "doorbuster.token";
// A form of the shop leaves the session in a cookie that no script can read, and beside it whose it is.
const SIGN = /(?:^|; )doorbuster_session=([^;]+)/;

export const byId = (id) => document.getElementById(id);

/** Text of a live region: set only when it changes, so that nothing is read out twice. */
export function say(element, text, kind = "") {
  element.classList.toggle("bad", kind === "bad");
  element.classList.toggle("good", kind === "good");
  if (element.textContent !== text) element.textContent = text;
}

// When the shop was last heard of, and how it is shown that it is not. One lost answer is no lost connection: the
// next try follows within seconds.
const LOST_AFTER_MS = 4000;
let heardAt = performance.now();

function heard() {
  heardAt = performance.now();
  connection(true);
}

function notHeard() {
  if (!navigator.onLine || performance.now() - heardAt > LOST_AFTER_MS) connection(false);
}

/** Whether the shop answers; a page may show more of it than the banner does, at the event `connection`. */
export let isConnected = true;

function connection(there) {
  if (there === isConnected) return;
  isConnected = there;
  say(byId("connection"), there ? "" : t("no-connection"));
  dispatchEvent(new Event("connection"));
}

addEventListener("offline", () => connection(false));

// What the shop hands over arrives in the fragment, which no server log sees, and leaves the address bar at once.
const handed = new URLSearchParams(location.hash.slice(1));

/** What a check of the shop's gave for joining a line; it counts once. */
export const handedVerification = handed.get("verification");

if (handed.has("verification") || (SESSION === "token" && handed.get("token"))) {
  history.replaceState(history.state, "", location.pathname + location.search);
}

function takeToken() {
  if (handed.get("token")) session.set(TOKEN_NAME, handed.get("token"));
  return session.get(TOKEN_NAME);
}

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
  const subject = tokenPart(token, 1)?.sub;
  return subject === undefined ? "token" : `token.${subject}`;
})();

let opening = null;

/** Makes sure that the server will know this buyer. Rejects with a 401 problem if it can't. */
export function openSession() {
  if (!isSignedIn()) {
    return Promise.reject(new Problem(401, { code: "unauthorized", detail: t("sign-in-first") }));
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

/** What to add to a text that says so: the way to the shop's sign-in and back here, if the shop has said where it is. */
export function signInLink() {
  return linkThere(document.body.dataset.signIn, "sign-in");
}

/** A link to a page of the shop's that leads back here, if the shop has said where it is. */
export function linkThere(address, text) {
  if (!address) return [];
  const link = document.createElement("a");
  link.href = address.replaceAll("{return}", encodeURIComponent(location.href));
  link.textContent = t(text);
  return [" ", link];
}

/** The pages that this one leads to; they go on as the same member. */
export const orderPath = (id) => `/orders/${encodeURIComponent(id)}${member ? `?memberId=${member}` : ""}`;
export const offerPath = (sale, product) => (member
  ? `/product?flashPromotionId=${Number(sale)}&promotionProductId=${Number(product)}&memberId=${member}`
  : `/seckill_${Number(sale)}_${Number(product)}.html`);

// The latest of them; more are in the shop's own list.
const MY_ORDERS_MAX = 50;
const MY_ORDERS_NAME = `doorbuster.orders.${buyer}`;

/** What this buyer has ordered in this browser, the latest first: id, title, and when it was placed. */
export const myOrders = () => stored(MY_ORDERS_NAME) ?? [];

export function rememberOrder(order) {
  const others = myOrders().filter(({ id }) => id !== order.id);
  local.set(MY_ORDERS_NAME, JSON.stringify([order, ...others].slice(0, MY_ORDERS_MAX)));
}

/** Where this buyer's latest order of a product is remembered: id, title, and when it was placed. */
export const orderName = (sale, product) => `doorbuster.order.${buyer}.${sale}.${product}`;

/** One request of this buyer. Resolves to the parsed body, or null; rejects with `Problem` or `NoAnswer`. */
export async function call(method, path, { body, key } = {}) {
  const headers = member ? { memberid: member } : {};
  try {
    const answer = await request(method, path, { body, key, token, headers, credentials: "same-origin" });
    heard();
    return answer;
  } catch (error) {
    if (error instanceof Problem) heard();
    else notHeard();
    throw error;
  }
}
