// A buy button for pages of the shop, an element of its own. docs/shop.md has its attributes and events.
//
//   <script type="module" src="SERVER/buy-button.js"></script>
//   <doorbuster-buy sale="3" product="29" token="TOKEN"></doorbuster-buy>
//
// It orders as the sale's own page does: an attempt is stored before it is sent, and repeated under its key until the server
// has said what became of it. Of an item that is sold to its line it leads to the line's page, and orders for whoever was called.

import { exclusively, newKey, refusalText, settle } from "./attempt.js";
import { everySecond, isSet, now, observe, spanText } from "./clock.js";
import { jittered, local, money, pause, request, stored, timeOfDay, tokenPart, units } from "./common.js";
import { VIEWS, pollDelay, take, viewOf } from "./state.js";
import { t } from "./texts.js";

// Where this file comes from.
const HOME = new URL(import.meta.url).origin;
// Of a session, before it ends.
const RENEW_MS = 30_000;
const WHOLE = /^\d{1,19}$/;

const STYLE = `
  :host { display: inline-block; font: inherit; }
  button { font: inherit; font-weight: 600; min-width: 10em; min-height: 44px; padding: .5em 1.2em; border: 0;
    border-radius: .5em; background: var(--doorbuster-accent, #1f4ed8); color: var(--doorbuster-on-accent, #fff); cursor: pointer; }
  button[aria-disabled="true"] { background: #e3e5ea; color: #3c4350; cursor: default; }
  button:focus-visible { outline: 3px solid currentColor; outline-offset: 2px; }
  p { margin: .4em 0 0; max-width: 26em; }
`;

class BuyButton extends HTMLElement {
  #offer = { phase: "not_started", startsAt: 0, endsAt: 0, available: 0, total: 0, known: false };
  // What a unit of which item cost when it was first asked about, or when an order was refused for its price.
  #cost = { of: "", price: 0, currency: "" };
  // Of an item with a line: the units of turns that are open; null: it has none.
  #turns = null;
  // The buyer's own turn, as the server said it last.
  #turn = { units: 0, until: 0 };
  #busy = false;
  #session = null;
  #wake = () => {};
  #button = document.createElement("button");
  #status = document.createElement("p");

  connectedCallback() {
    if (!this.shadowRoot) this.#build();
    for (const name of ["sale", "product", ...(this.hasAttribute("price") ? ["price"] : [])]) {
      if (!WHOLE.test(this.getAttribute(name) ?? "")) {
        this.#say(t("button-not-a-number", { name }));
        return;
      }
    }
    this.#run();
  }

  #build() {
    const root = this.attachShadow({ mode: "open" });
    // Not a <style>: the page may allow none.
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(STYLE);
    root.adoptedStyleSheets = [sheet];
    this.#button.type = "button";
    this.#button.part = "button";
    this.#status.part = "status";
    this.#status.setAttribute("role", "status");
    root.append(this.#button, this.#status);
    this.#button.addEventListener("click", () => this.#press());
    document.addEventListener("visibilitychange", () => document.hidden || this.#wake());
    this.#draw();
    everySecond(() => (this.#view() === "not_started" ? this.#offer.startsAt : this.#offer.endsAt), () => this.#draw());
  }

  /** Asks for the stock for as long as the element is in the page. */
  async #run() {
    for (let failures = 0; this.isConnected; ) {
      let wait;
      try {
        const askedAt = performance.now();
        const query = `sale=${this.getAttribute("sale")}&product=${this.getAttribute("product")}`;
        const stock = await request("GET", `${HOME}/api/v1/stock?${query}`);
        observe(stock.now_ms, askedAt, performance.now());
        take(this.#offer, stock, askedAt);
        if (this.#cost.of !== query) this.#cost = { of: query, price: stock.price, currency: stock.currency };
        this.#turns = stock.has_line ? stock.turns : null;
        this.#draw();
        failures = 0;
        wait = jittered(pollDelay(viewOf(this.#offer), this.#offer.startsAt));
      } catch (error) {
        if (error.status === 404) {
          this.#say(t("not-on-sale"));
          return;
        }
        failures += 1;
        wait = Math.max(error.retryAfterMs ?? 0, jittered(Math.min(1000 * 2 ** failures, 30_000)));
      }
      await Promise.race([pause(wait), new Promise((now) => (this.#wake = now))]);
    }
  }

  async #press() {
    if (this.#busy || this.#button.getAttribute("aria-disabled") === "true") return;
    this.#busy = true;
    this.#say("");
    this.#draw();
    try {
      const who = tokenPart(this.getAttribute("token"), 1)?.sub;
      if (this.#leadsToLine(who)) return await this.#askForTurn(who);
      if (who === undefined) return this.#askToSignIn(t("button-sign-in"));
      await exclusively(this.#name("attempt", who), () => this.#order(who));
    } finally {
      this.#busy = false;
      this.#draw();
    }
  }

  /** Whoever was called hears of it, and presses again; everybody else joins and waits on the line's page. */
  async #askForTurn(who) {
    try {
      if (who === undefined) return await this.#goToLine();
      const path = `/api/v1/sales/${this.getAttribute("sale")}/items/${this.getAttribute("product")}/line/presence`;
      const place = await request("POST", HOME + path, { token: await this.#token() });
      if (place.standing !== "called") return await this.#goToLine();
      this.#turn = { units: place.turn_units, until: place.turn_until_ms };
      this.#say(t("button-your-turn", { units: units(place.turn_units), time: timeOfDay(place.turn_until_ms) }));
    } catch (error) {
      if (error.code === "not_in_line") return this.#goToLine();
      if (error.status === 401) return this.#askToSignIn(error.message);
      this.#say(error.message);
    }
  }

  async #goToLine() {
    const url = `${HOME}/seckill_${this.getAttribute("sale")}_${this.getAttribute("product")}.html`;
    if (!this.#tell("doorbuster-line", { url })) return;
    location.assign(this.getAttribute("token") ? `${url}#token=${encodeURIComponent(await this.#token())}` : url);
  }

  async #order(who) {
    const name = this.#name("attempt", who);
    const attempt = stored(name) ?? this.#newAttempt(name);
    this.#say(t("placing"));
    const send = async () => request("POST", `${HOME}/api/v1/orders`, { ...attempt, token: await this.#token() });
    const renew = () => {
      const helps = this.#session !== null;
      this.#session = null;
      return helps;
    };
    const progress = (reason, tries) => {
      this.#say(t("asking-again", { reason, number: tries + 1 }));
    };
    const { order, refusal, unauthorized } = await settle({ send, renew, progress });
    if (order) return this.#placed(order, who);
    if (unauthorized) return this.#askToSignIn(unauthorized.message);
    if (!refusal) return this.#say(t("not-learned"));
    local.remove(name);
    if (refusal.unitPrice === undefined) {
      this.#turn.until = 0;
      this.#say(refusalText(refusal));
    } else {
      this.#reprice(refusal.unitPrice);
    }
    this.#tell("doorbuster-refused", { code: refusal.code, detail: refusal.message, unit_price: refusal.unitPrice });
    this.#wake();
  }

  // Until a sale starts its prices may change, under a page that is open. The next press is for the new one.
  #reprice(price) {
    this.#cost.price = price;
    if (this.hasAttribute("price")) this.setAttribute("price", price);
    this.#say(t("button-price-changed", { price: money(price, this.#cost.currency) }));
  }

  #newAttempt(name) {
    const body = JSON.stringify({
      sale: Number(this.getAttribute("sale")),
      product: Number(this.getAttribute("product")),
      // The last turn of an odd stock may be for fewer.
      unit_price: Number(this.getAttribute("price") ?? this.#cost.price),
      quantity: Math.min(Number(this.getAttribute("quantity") ?? 1), this.#turns === null ? Infinity : this.#turn.units),
    });
    const attempt = { key: newKey(), at: Date.now(), body };
    local.set(name, JSON.stringify(attempt));
    return attempt;
  }

  async #placed(order, who) {
    // First the order, then the attempt: a crash in between leads to the same order again.
    local.set(this.#name("order", who), JSON.stringify({ id: order.id, at: Date.now() }));
    local.remove(this.#name("attempt", who));
    this.#say(t("reserved"));
    if (this.#tell("doorbuster-order", order)) location.assign(order.pay_url ?? await this.#orderPage(order.id));
  }

  /** The token goes in the fragment, which no server log sees. */
  async #orderPage(id) {
    return `${HOME}/orders/${encodeURIComponent(id)}#token=${encodeURIComponent(await this.#token())}`;
  }

  /** What orders take: a token that is not signed with HS256 is exchanged for a session. */
  async #token() {
    const token = this.getAttribute("token");
    if (tokenPart(token, 0)?.alg === "HS256") return token;
    if (this.#session?.of !== token || this.#session.expires_at_ms - RENEW_MS < now()) {
      this.#session = { of: token, ...await request("POST", `${HOME}/api/v1/session`, { token }) };
    }
    return this.#session.token;
  }

  #askToSignIn(text) {
    this.#say(text);
    const url = this.getAttribute("sign-in-url");
    if (!url) return;
    const link = document.createElement("a");
    link.href = url.replaceAll("{return}", encodeURIComponent(location.href));
    link.textContent = t("sign-in");
    this.#status.append(" ", link);
  }

  /** False if the page does what is to be done itself. */
  #tell(type, detail) {
    return this.dispatchEvent(new CustomEvent(type, { bubbles: true, cancelable: true, detail }));
  }

  /** A line is joined from the sale's creation to its end, and a turn works after that: it is never sold out here. */
  #view() {
    const view = viewOf(this.#offer);
    return this.#turns !== null && (view !== "ended" || this.#turns > 0) ? "line" : view;
  }

  /** An order that was sent is asked for again, whatever has become of the turn. */
  #leadsToLine(who) {
    return this.#view() === "line" && this.#turn.until <= now() && !this.#isPending(who);
  }

  #isPending(who) {
    return who !== undefined && stored(this.#name("attempt", who)) !== null;
  }

  #name(what, who) {
    return `doorbuster.${what}.${HOME}.${who}.${this.getAttribute("sale")}.${this.getAttribute("product")}`;
  }

  #say(text) {
    if (this.#status.textContent !== text) this.#status.textContent = text;
  }

  // `aria-disabled`, never `disabled`: the button must not drop the keyboard's focus when it is pressed.
  #draw() {
    const view = this.#view();
    if (this.#turn.until > 0 && this.#turn.until <= now()) {
      this.#turn.until = 0;
      this.#say("");
    }
    const who = tokenPart(this.getAttribute("token"), 1)?.sub;
    const pending = this.#isPending(who);
    const open = this.#offer.known && ["live", "few", "line"].includes(view);
    const label = this.#busy || !this.#offer.known ? t("one-moment") : pending ? t("ask-again")
      : this.#leadsToLine(who) ? t("button-to-line")
      : open ? this.getAttribute("label") ?? t("buy-now")
        : view === "not_started" && isSet() ? t("opens-in", { span: spanText(this.#offer.startsAt - now()) }) : VIEWS[view].button;
    if (this.#button.textContent !== label) this.#button.textContent = label;
    this.#button.setAttribute("aria-disabled", String(this.#busy || !(open || pending)));
    this.#button.setAttribute("aria-busy", String(this.#busy));
  }
}

customElements.define("doorbuster-buy", BuyButton);
