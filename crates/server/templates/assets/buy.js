// The form of a sale's page: it places one order, exactly once. The attempt is stored before it is sent, so a lost answer, a
// reload or a second press costs nothing.

import { AddressFields } from "./address.js";
import { exclusively, newKey, refusalText, settle } from "./attempt.js";
import { count, local, money, stored } from "./common.js";
import {
  buyer, byId, call, closeSession, isSignedIn, openSession, orderName, orderPath, rememberOrder, say, signInLink,
} from "./shop.js";
import { t } from "./texts.js";

// An attempt older than this is not repeated unasked: its buyer may have changed their mind since.
const FRESH_MS = 900_000;

/** Refusals that are true no longer than the sale is in the state that it is in. */
const OF_STATE = ["sold_out", "not_started", "ended", "paused"];

export class Checkout {
  /** `offer` gives sale, product, price and currency; `refused` is called after a definitive refusal. */
  constructor(offer, refused) {
    this.offer = offer;
    this.refused = refused;
    this.form = byId("buy");
    this.button = byId("submit");
    this.outcome = byId("outcome");
    this.mine = byId("mine");
    this.forgetButton = byId("forget");
    this.attemptName = `doorbuster.attempt.${buyer}.${offer.sale}.${offer.product}`;
    this.orderName = orderName(offer.sale, offer.product);
    // The latest order that whoever reads this page knows of: another tab may place one.
    this.knownOrder = stored(this.orderName)?.id;
    // What is said of the sale's state holds until that changes: "label" what the button was, "refusal" what the
    // server answered; and when it was said.
    this.saidOf = "";
    this.saidAt = 0;
    this.busy = false;
    this.open = false;
    this.label = this.button.textContent;
    this.button.disabled = false;
    this.form.addEventListener("submit", (event) => this.submit(event));
    this.form.addEventListener("input", () => this.edited());
    this.forgetButton.addEventListener("click", () => this.forget());
    // Going back to a page that the browser kept: the order was placed, the page may be used again.
    addEventListener("pageshow", (event) => event.persisted && this.comeBack());
    // Another tab has ordered, or has an attempt under way.
    addEventListener("storage", () => {
      this.linkToMine();
      this.draw();
    });
    // The shop may not ask for one.
    this.address = byId("address") && new AddressFields(this.form, this.button);
    this.edited();
    this.draw();
    this.resume();
  }

  /** The sale opened or closed; `label` is what the button says. */
  setOpen(open, label) {
    if (!this.busy && (this.saidOf === "label" || (this.saidOf && open))) this.say("");
    this.open = open;
    this.label = label;
    this.draw();
  }

  /** Nobody is offered more units than there are; while there is none, the form stays as it is for when there is. */
  setAvailable(available) {
    const { quantity } = this.form.elements;
    const most = Math.min(Number(quantity.dataset.max), available);
    if (quantity.type === "hidden" || most < 1 || Number(quantity.max) === most) return;
    quantity.max = most;
    const perPerson = quantity.dataset.limit && Number(quantity.dataset.max) === most;
    byId("quantity-hint").textContent = most === 1 && !perPerson ? t("only-one-left")
      : t(perPerson ? "at-most-per-person" : "at-most", { text: count(most) });
    this.edited();
  }

  /** The stock as of `askedAt` is on the page. An earlier refusal may be true no longer. */
  observed(askedAt) {
    if (this.saidOf === "refusal" && this.open && !this.busy && askedAt > this.saidAt) {
      this.say(t("nothing-then"));
    }
  }

  // `of`: of the sale's state, and true no longer than that.
  say(text, kind = "", of = "") {
    this.saidOf = of;
    this.saidAt = performance.now();
    say(this.outcome, text, kind);
  }

  attempt() {
    return stored(this.attemptName);
  }

  // An answer never came, in this tab's last life or in another tab: ask again with the same key.
  resume() {
    const attempt = this.attempt();
    this.linkToMine();
    if (!attempt) {
      this.say("");
    } else if (Date.now() - attempt.at < FRESH_MS) {
      this.say(t("checking-order"));
      this.settleAlone(Date.now(), false);
    } else {
      this.say(t("earlier-unanswered"));
      this.forgetButton.hidden = false;
    }
    this.draw();
  }

  submit(event) {
    event.preventDefault();
    if (this.busy) return;
    if (!this.open && !this.attempt()) {
      this.say(t("not-open", { state: this.label }), "", "label");
      return;
    }
    if (!isSignedIn()) {
      this.say(t("sign-in-nothing-ordered"), "bad");
      this.outcome.append(...signInLink());
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
        if (order && order.id !== this.knownOrder && !this.attempt()) return this.warnOfOther(order);
        const attempt = this.attempt() ?? (pressed ? this.newAttempt() : null);
        return attempt ? this.settle(attempt) : this.say("");
      });
    } finally {
      if (!this.left) this.setBusy(false);
    }
  }

  newAttempt() {
    const fields = new FormData(this.form);
    const attempt = {
      key: newKey(),
      at: Date.now(),
      body: JSON.stringify({
        sale: this.offer.sale,
        product: this.offer.product,
        quantity: Number(fields.get("quantity")),
        unit_price: this.offer.price,
        ...(this.address && { address: this.address.values() }),
      }),
    };
    local.set(this.attemptName, JSON.stringify(attempt));
    return attempt;
  }

  // Repeats the attempt until there is a verdict or our patience ends.
  async settle(attempt) {
    this.say(t("placing"));
    const send = async () => {
      await openSession();
      return call("POST", "/api/v1/orders", attempt);
    };
    // A demonstration's cookie is renewed once; nobody else's session is ours to renew.
    const progress = (reason, tries) => this.progress(reason, tries);
    const { order, refusal, unauthorized } = await settle({ send, renew: closeSession, progress });
    if (order) return this.placed(order);
    if (refusal) return this.refuse(refusal);
    if (unauthorized) {
      this.stop(unauthorized.message);
      return this.outcome.append(...signInLink());
    }
    return this.stop(t("not-learned"));
  }

  placed(order) {
    const title = document.querySelector("h1").textContent;
    // First the order, then the attempt: a crash in between leads to the same order again.
    local.set(this.orderName, JSON.stringify({ id: order.id, at: Date.now(), title }));
    rememberOrder({ id: order.id, at: Date.now(), title });
    local.remove(this.attemptName);
    this.knownOrder = order.id;
    this.address?.forget();
    this.say(t("reserved-leading"), "good");
    this.go(order.id);
  }

  go(id) {
    this.left = true;
    location.assign(orderPath(id));
  }

  refuse(error) {
    local.remove(this.attemptName);
    this.forgetButton.hidden = true;
    if (error.unitPrice !== undefined) this.reprice(error.unitPrice);
    this.say(refusalText(error), "bad", OF_STATE.includes(error.code) ? "refusal" : "");
    this.refused();
  }

  // Until a sale starts its prices may change, under a page that is open.
  reprice(price) {
    this.offer.price = price;
    const shown = document.createElement("strong");
    shown.textContent = money(price, this.offer.currency);
    document.querySelector(".offer .price").replaceChildren(shown);
    this.edited();
  }

  stop(text) {
    this.say(text, "bad");
    this.forgetButton.hidden = false;
  }

  progress(reason, tries) {
    this.say(t("asking-again", { reason, number: tries + 1 }));
  }

  forget() {
    if (this.busy) return;
    local.remove(this.attemptName);
    this.forgetButton.hidden = true;
    this.say("");
    this.draw();
    this.button.focus();
  }

  // Nobody who presses once in each of two tabs means two orders.
  warnOfOther(order) {
    this.knownOrder = order.id;
    this.linkToMine();
    this.say(t("ordered-in-other-tab"));
  }

  // Beside whatever else is said: the way to an order that one has must not go.
  linkToMine() {
    const order = stored(this.orderName);
    if (!order) return;
    const link = document.createElement("a");
    link.href = orderPath(order.id);
    link.textContent = t("see-your-order");
    this.mine.replaceChildren(`${t("ordered-before")} `, link);
  }

  comeBack() {
    this.left = false;
    this.say("");
    this.linkToMine();
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
    const label = this.busy ? t("one-moment") : pending ? t("ask-again") : this.label;
    if (this.button.textContent !== label) this.button.textContent = label;
  }

  edited() {
    const { quantity } = this.form.elements;
    const wanted = Math.max(1, Math.min(Number(quantity.value) || 1, Number(quantity.max || quantity.dataset.max)));
    byId("total").textContent = money(this.offer.price * wanted, this.offer.currency);
  }
}
