// Placing one order, exactly once. An attempt is a key and the exact body that goes with it; it is stored
// before it is sent, and repeated, never remade, until the server has said what became of it. The server
// gives the first answer again to a repeated key, so a lost answer, a reload or a second press costs nothing.

import {
  Problem, backoff, buyer, byId, call, closeSession, isSignedIn, local, money, openSession, orderName,
  orderPath, parsedOrNull, pause, say, session,
} from "./shop.js";

// After this long without a verdict we stop asking by ourselves; the attempt stays, the button resumes it.
const PATIENCE_MS = 180_000;
// An attempt older than this is not repeated unasked: its buyer may have changed their mind since.
const FRESH_MS = 900_000;
const ADDRESS = ["name", "phone", "country", "province", "city", "district", "detail", "post_code"];
const DRAFT_NAME = "doorbuster.draft";

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

export class Checkout {
  /** `offer` gives sale, product, price and currency; `refused` is called after a definitive refusal. */
  constructor(offer, refused) {
    this.offer = offer;
    this.refused = refused;
    this.form = byId("buy");
    this.button = byId("submit");
    this.outcome = byId("outcome");
    this.forgetButton = byId("forget");
    this.attemptName = `doorbuster.attempt.${buyer}.${offer.sale}.${offer.product}`;
    this.orderName = orderName(offer.sale, offer.product);
    this.busy = false;
    this.open = false;
    this.label = this.button.textContent;
    this.button.disabled = false;
    this.form.addEventListener("submit", (event) => this.submit(event));
    this.form.addEventListener("input", () => this.edited());
    this.forgetButton.addEventListener("click", () => this.forget());
    // Going back to a page that the browser kept: the order was placed, the page may be used again.
    addEventListener("pageshow", (event) => event.persisted && this.comeBack());
    this.restoreDraft();
    this.edited();
    this.draw();
    this.resume();
  }

  /** The sale opened or closed; `label` is what the button says. */
  setOpen(open, label) {
    this.open = open;
    this.label = label;
    this.draw();
  }

  attempt() {
    return stored(this.attemptName);
  }

  // An answer never came, in this tab's last life or in another tab: ask again with the same key.
  resume() {
    const attempt = this.attempt();
    if (!attempt) {
      const order = stored(this.orderName);
      if (order) this.linkTo(order.id);
    } else if (Date.now() - attempt.at < FRESH_MS) {
      say(this.outcome, "Checking on the order that you sent…");
      this.settleAlone(Date.now(), false);
    } else {
      say(this.outcome, "An earlier order of yours never got its answer. Ask again, or discard it.");
      this.forgetButton.hidden = false;
    }
    this.draw();
  }

  submit(event) {
    event.preventDefault();
    if (this.busy) return;
    if (!this.open && !this.attempt()) {
      say(this.outcome, `${this.label}. Nothing was ordered.`);
      return;
    }
    if (!isSignedIn()) {
      say(this.outcome, "Sign in at the shop first. Nothing was ordered.", "bad");
      return;
    }
    this.settleAlone(Date.now(), true);
  }

  // One tab at a time: two tabs that both see no attempt would make two. Whoever had to wait may find that
  // the other tab has ordered, or was refused; only a press makes a new attempt.
  async settleAlone(since, pressed) {
    this.setBusy(true);
    try {
      await exclusively(this.attemptName, async () => {
        const order = stored(this.orderName);
        if (order && order.at >= since) return this.go(order.id);
        const attempt = this.attempt() ?? (pressed ? this.newAttempt() : null);
        return attempt ? this.settle(attempt) : say(this.outcome, "");
      });
    } finally {
      if (!this.left) this.setBusy(false);
    }
  }

  newAttempt() {
    const fields = new FormData(this.form);
    const text = (name) => String(fields.get(name) ?? "").trim();
    const attempt = {
      key: newKey(),
      at: Date.now(),
      body: JSON.stringify({
        sale: this.offer.sale,
        product: this.offer.product,
        quantity: Number(fields.get("quantity")),
        address: Object.fromEntries(ADDRESS.map((name) => [name, text(name)])),
      }),
    };
    local.set(this.attemptName, JSON.stringify(attempt));
    return attempt;
  }

  // Repeats the attempt until there is a verdict or our patience ends.
  async settle(attempt) {
    const giveUpAt = Date.now() + PATIENCE_MS;
    let strange = 0;
    say(this.outcome, "Placing your order…");
    for (let tries = 1; ; tries++) {
      let wait;
      try {
        await openSession();
        const order = await call("POST", "/api/v1/orders", attempt);
        if (order?.id) return this.placed(order);
        wait = backoff(tries);
        this.progress("The shop's answer was cut short", tries);
      } catch (error) {
        if (isRefusal(error)) return this.refuse(error);
        // A demonstration's cookie is renewed once; nobody else's session is ours to renew.
        if (error.status === 401 && (++strange > 1 || !closeSession())) return this.stop(error.message);
        wait = backoff(tries, error.retryAfterMs);
        this.progress(excuse(error), tries);
      }
      if (Date.now() + wait > giveUpAt) {
        return this.stop("We could not learn what became of your order. Press the button to ask again: "
          + "it can't be ordered twice.");
      }
      await pause(wait);
    }
  }

  placed(order) {
    const title = document.querySelector("h1").textContent;
    // First the order, then the attempt: a crash in between leads to the same order again.
    local.set(this.orderName, JSON.stringify({ id: order.id, at: Date.now(), title }));
    local.remove(this.attemptName);
    session.remove(DRAFT_NAME);
    say(this.outcome, "Reserved! Taking you to your order…", "good");
    this.go(order.id);
  }

  go(id) {
    this.left = true;
    location.assign(orderPath(id));
  }

  refuse(error) {
    local.remove(this.attemptName);
    this.forgetButton.hidden = true;
    say(this.outcome, REFUSALS[error.code] ?? error.message, "bad");
    this.refused();
  }

  stop(text) {
    say(this.outcome, text, "bad");
    this.forgetButton.hidden = false;
  }

  progress(reason, tries) {
    say(this.outcome, `${reason}. Asking again with the same key, so you can't buy twice (try ${tries + 1})…`);
  }

  forget() {
    if (this.busy) return;
    local.remove(this.attemptName);
    this.forgetButton.hidden = true;
    say(this.outcome, "");
    this.draw();
    this.button.focus();
  }

  linkTo(id) {
    const link = document.createElement("a");
    link.href = orderPath(id);
    link.textContent = "See your order";
    say(this.outcome, "You have ordered this here before. ");
    this.outcome.append(link);
  }

  comeBack() {
    this.left = false;
    this.setBusy(false);
  }

  setBusy(busy) {
    this.busy = busy;
    this.draw();
  }

  // `aria-disabled`, never `disabled`: the button must not drop the keyboard's focus when it is pressed.
  draw() {
    const pending = Boolean(this.attempt());
    const usable = !this.busy && (this.open || pending);
    this.button.setAttribute("aria-disabled", String(!usable));
    this.button.setAttribute("aria-busy", String(this.busy));
    // An attempt has its own body: asking again must not wait for a form that may be empty by now.
    this.form.noValidate = pending;
    const label = this.busy ? "One moment…" : pending ? "Ask again about your order" : this.label;
    if (this.button.textContent !== label) this.button.textContent = label;
  }

  edited() {
    const { quantity } = this.form.elements;
    const wanted = Math.max(1, Math.min(Number(quantity.value) || 1, Number(quantity.dataset.max)));
    byId("total").textContent = money(this.offer.price * wanted, this.offer.currency);
    const draft = ADDRESS.map((name) => [name, this.form.elements[name].value]);
    session.set(DRAFT_NAME, JSON.stringify(Object.fromEntries(draft)));
  }

  restoreDraft() {
    const draft = parsedOrNull(session.get(DRAFT_NAME)) ?? {};
    for (const name of ADDRESS) {
      const field = this.form.elements[name];
      if (!field.value && typeof draft[name] === "string") field.value = draft[name];
    }
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

function exclusively(name, act) {
  // Only secure contexts have locks; elsewhere the stored attempt alone has to do.
  return navigator.locks ? navigator.locks.request(name, act) : act();
}

function newKey() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const stored = (name) => parsedOrNull(local.get(name));
