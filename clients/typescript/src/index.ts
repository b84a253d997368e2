// A client for a shop's server or its page. What is asked for is retried under one key until it is decided or the time is over, and
// what is not known then is an outcome of its own: an order that may have been placed is never said to have failed.
//
// The types and paths are generated of the API's document (document.ts, by `npm run generate`); this file has what the document
// can't say: when to ask again, and what an answer proves.

import createClient from "openapi-fetch";

import type { components, paths } from "./document.js";

type Schemas = components["schemas"];
export type Order = Schemas["Order"];
export type OrderRequest = Schemas["OrderRequest"];
export type OrderFeed = Schemas["OrderFeed"];
export type Payment = Schemas["Payment"];
export type PaymentRequest = Schemas["PaymentRequest"];
export type Sale = Schemas["Sale"];
export type Problem = Schemas["Problem"];

/** What became of a call that changes something. `value` is there only where `outcome` is "done", so all three must be looked at. */
export type Outcome<T> =
  | { outcome: "done"; value: T }
  /** It surely did not happen. `code` is stable, for example "sold_out". */
  | { outcome: "refused"; status: number; code: string; detail: string }
  /** It may have happened, or may happen yet. To learn it, make the same call with the same key again, later too. */
  | { outcome: "unknown"; key: string; why: string };

export interface Options {
  /** Where the server is, as in "https://drops.shop.example". */
  url: string;
  /** Of a buyer (a token of the shop, or a session), or of the operator. */
  token?: string;
  /** Sent with each request, as memberId behind a trusted edge. */
  headers?: Record<string, string>;
  /** Longest time of one attempt, in ms; 5000 if left out. */
  attemptMs?: number;
  /** Longest time of a call with all of its attempts, in ms; 30000 if left out. */
  callMs?: number;
  fetch?: typeof fetch;
}

/** No answer to a call that only reads. */
export class Unanswered extends Error {
  override name = "Unanswered";
}

/** An answer that is an error, to a call that only reads. */
export class Refused extends Error {
  override name = "Refused";
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
  ) {
    super(detail);
  }
}

/** Shortest and longest pause between two attempts, where the server does not say how long. */
const PAUSE_MS_MIN = 100;
const PAUSE_MS_MAX = 5_000;
/** Longest pause that a server is believed to want. */
const RETRY_AFTER_MS_MAX = 60_000;
/** Refused before anything was done, for now. */
const NOT_NOW = new Set(["busy", "unavailable", "ledger_unreadable", "pending"]);
/** Of answers for which the key was looked up: if the order were there, it would have been the answer. */
const AFTER_THE_KEY = new Set([404, 409, 422]);

interface Answer<T> {
  data?: T | undefined;
  error?: unknown;
  response: Response;
}

export class Doorbuster {
  readonly #client;
  readonly #attemptMs: number;
  readonly #callMs: number;

  constructor(options: Options) {
    const headers: Record<string, string> = { ...options.headers };
    if (options.token !== undefined) headers["Authorization"] = `Bearer ${options.token}`;
    this.#attemptMs = options.attemptMs ?? 5_000;
    this.#callMs = options.callMs ?? 30_000;
    this.#client = createClient<paths>({
      baseUrl: options.url.replace(/\/+$/, ""),
      headers,
      ...(options.fetch ? { fetch: options.fetch as (request: Request) => Promise<Response> } : {}),
    });
  }

  /** Places an order. Keep the key with the buyer's attempt, and give it again to ask what became of it. */
  placeOrder(order: OrderRequest, key: string = newKey()): Promise<Outcome<Order>> {
    const params = { header: { "Idempotency-Key": key } };
    return this.#change(key, (signal) => this.#client.POST("/api/v1/orders", { params, body: order, signal }));
  }

  /** Cancels an order that is held. */
  cancelOrder(id: string): Promise<Outcome<Order>> {
    const params = { path: { id } };
    return this.#change(id, (signal) => this.#client.POST("/api/v1/orders/{id}/cancel", { params, signal }));
  }

  /** Reports what the payment provider says, signed with the secret of `DOORBUSTER_PAYMENT_SECRET`. */
  async reportPayment(payment: PaymentRequest, secret: string): Promise<Outcome<Payment>> {
    const body = JSON.stringify(payment);
    return this.#change(payment.payment_id, async (signal) => {
      const params = { header: { "Doorbuster-Signature": await sign(body, secret) } };
      return this.#client.POST("/api/v1/payments", { params, body: payment, bodySerializer: () => body, signal });
    });
  }

  /** Operator: says that the provider gave the money back. */
  settleRefund(payment: string): Promise<Outcome<Payment>> {
    const params = { path: { payment } };
    return this.#change(payment, (signal) => this.#client.POST("/api/v1/payments/{payment}/settle", { params, signal }));
  }

  /** `wait`: seconds to wait for an order that is pending. */
  order(id: string, wait?: number): Promise<Order> {
    const params = { path: { id }, query: wait === undefined ? {} : { wait } };
    return this.#read((signal) => this.#client.GET("/api/v1/orders/{id}", { params, signal }));
  }

  sale(sale: number): Promise<Sale> {
    return this.#read((signal) => this.#client.GET("/api/v1/sales/{sale}", { params: { path: { sale } }, signal }));
  }

  /**
   * Operator: orders that were placed or changed after the cursor `since`, for as long as `more` is true. `wait`: seconds to wait while
   * nothing happens; fewer than an attempt may take.
   */
  changes(since: number, limit = 1_000, wait = 0): Promise<OrderFeed> {
    const params = { query: { since, limit, wait } };
    return this.#read((signal) => this.#client.GET("/api/v1/orders", { params, signal }));
  }

  async #change<T>(key: string, send: (signal: AbortSignal) => Promise<Answer<T>>): Promise<Outcome<T>> {
    const ends = Date.now() + this.#callMs;
    let unknown: string | undefined;
    for (let attempt = 1; ; attempt++) {
      const got = await this.#attempt(send, ends);
      if ("value" in got) return { outcome: "done", value: got.value };
      if (got.kind === "lost") unknown = got.why;
      else if (got.kind === "final") {
        const { status, code, detail } = got;
        if (unknown === undefined || AFTER_THE_KEY.has(status)) return { outcome: "refused", status, code, detail };
        return { outcome: "unknown", key, why: `${unknown}; then ${status} ${code}: ${detail}` };
      }
      const pause = got.retryAfterMs ?? backoff(attempt);
      if (Date.now() + pause >= ends) {
        if (unknown !== undefined) return { outcome: "unknown", key, why: unknown };
        if (got.kind === "lost") throw new Error("a lost answer is unknown");
        return { outcome: "refused", status: got.status, code: got.code, detail: got.detail };
      }
      await sleep(pause);
    }
  }

  async #read<T>(send: (signal: AbortSignal) => Promise<Answer<T>>): Promise<T> {
    const ends = Date.now() + this.#callMs;
    for (let attempt = 1; ; attempt++) {
      const got = await this.#attempt(send, ends);
      if ("value" in got) return got.value;
      const pause = got.retryAfterMs ?? backoff(attempt);
      if (got.kind !== "final" && Date.now() + pause < ends) {
        await sleep(pause);
        continue;
      }
      throw got.kind === "lost" ? new Unanswered(got.why) : new Refused(got.status, got.code, got.detail);
    }
  }

  async #attempt<T>(send: (signal: AbortSignal) => Promise<Answer<T>>, ends: number): Promise<Attempted<T>> {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(), Math.max(1, Math.min(this.#attemptMs, ends - Date.now())));
    try {
      const { data, error, response } = await send(abort.signal);
      if (response.ok && data !== undefined) return { value: data };
      return judge(response, error);
    } catch (error) {
      const why = abort.signal.aborted ? "no answer in time" : `no answer: ${reason(error)}`;
      return { kind: "lost", why, retryAfterMs: null };
    } finally {
      clearTimeout(timer);
    }
  }
}

type Attempted<T> =
  | { value: T }
  /** It may have been carried out. */
  | { kind: "lost"; why: string; retryAfterMs: number | null }
  /** It was not carried out; "later": ask again. */
  | { kind: "later" | "final"; status: number; code: string; detail: string; retryAfterMs: number | null };

function judge(response: Response, error: unknown): Exclude<Attempted<never>, { value: never }> {
  const problem = isProblem(error) ? error : undefined;
  const { status } = response;
  const retryAfterMs = retryAfter(response.headers.get("Retry-After"));
  const { code = "", detail = response.statusText } = problem ?? {};
  if (status === 429 || status === 408 || (problem !== undefined && NOT_NOW.has(code))) {
    return { kind: "later", status, code, detail, retryAfterMs };
  }
  // A proxy that answers in the server's place does not know what the server did.
  if (status >= 500 || status < 400) return { kind: "lost", why: `${status} ${code}: ${detail}`, retryAfterMs };
  return { kind: "final", status, code, detail, retryAfterMs };
}

function isProblem(error: unknown): error is Problem {
  return typeof error === "object" && error !== null && "code" in error && "detail" in error;
}

/** In seconds; dates are not used by the server. */
function retryAfter(text: string | null): number | null {
  const seconds = Number(text ?? NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? Math.min(seconds * 1_000, RETRY_AFTER_MS_MAX) : null;
}

/** Doubles with each attempt, and is shorter by up to half at random: a crowd must not come back together. */
function backoff(attempt: number): number {
  const longest = Math.min(PAUSE_MS_MIN * 2 ** attempt, PAUSE_MS_MAX);
  return longest / 2 + (Math.random() * longest) / 2;
}

function sleep(ms: number): Promise<void> {
  return new Promise((wake) => setTimeout(wake, ms));
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message;
}

/** A key for one attempt of a buyer. */
export function newKey(): string {
  return crypto.randomUUID();
}

async function sign(body: string, secret: string): Promise<string> {
  const at = Math.floor(Date.now() / 1_000);
  const bytes = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", bytes.encode(secret), algorithm, false, ["sign"]);
  const tag = new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes.encode(`${at}.${body}`)));
  return `t=${at},v1=${Array.from(tag, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
