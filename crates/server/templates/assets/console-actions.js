// What an operator does. Each action says what it will do before it is done, and may be done twice without harm.
import { ask, create, duplicate } from "./console-making.js";
import { readRehearsal } from "./console-rehearsal.js";
import { slips, slipsOfRestock } from "./console-slips.js";
import { TOO_LARGE, byId, count, dayAndTime, duration, element, localTime, problemOf, reason, say, serverNow, set, unixTime } from "./console-words.js";

const WHY = { name: "why", label: "Why; kept beside your name", value: "", optional: true, max: 200 };

// How often an open page of a sale asks for its stock, as state.js has it.
const ASKS_EVERY_S = { live: 1.5, paused: 3 };

// Whom a change reaches, as far as is known: what their pages ask for.
const reaches = ({ state, stock_asked_per_s: asked, items }) => {
  const parts = [];
  if (asked && ASKS_EVERY_S[state]) parts.push(`about ${count(Math.round(asked * ASKS_EVERY_S[state]))} open pages ask for its stock`);
  const lines = items.flatMap(({ line }) => (line ? [line] : []));
  if (lines.length > 0) parts.push(`${count(lines.reduce((sum, line) => sum + line.waiting, 0))} people wait in its lines`);
  return parts.length > 0 ? ` Now ${parts.join(", ")}.` : "";
};

// Of a sale.
export const ACTIONS = {
  edit: {
    name: "Edit",
    states: ["not_started", "live", "paused"],
    says: () => "Only what you change is changed. Times are yours, to the second.",
    fields: async (sale) => {
      const { payment_s: payment } = await ask(`/api/v1/sales/${sale.id}?limit=1`);
      return [
        { name: "title", label: "Title", value: sale.title },
        ...(sale.state === "not_started" ? [{ name: "starts_at_ms", label: "Starts at", type: "datetime-local", value: localTime(sale.starts_at_ms) }] : []),
        { name: "ends_at_ms", label: "Ends at", type: "datetime-local", value: localTime(sale.ends_at_ms) },
        ...(payment === null ? [] : [{ name: "payment_s", label: "Seconds to pay, for orders from now on", type: "number", min: "1", value: String(payment) }]),
      ];
    },
    request: (sale, values) => {
      const written = { title: String, payment_s: Number, starts_at_ms: unixTime, ends_at_ms: unixTime };
      const body = {};
      for (const [name, { before, now }] of Object.entries(values)) {
        if (now !== before) body[name] = written[name](now);
      }
      const { starts_at_ms: starts, ends_at_ms: ends } = body;
      const length = starts || ends ? (ends ?? sale.ends_at_ms) - (starts ?? sale.starts_at_ms) : undefined;
      return Object.keys(body).length > 0 && { method: "PATCH", path: `/api/v1/sales/${sale.id}`, body, odd: slips({ ...body, length_ms: length }) };
    },
    done: "Changed.",
  },
  duplicate,
  pause: {
    name: "Pause",
    states: ["live", "not_started"],
    says: (sale) => `Nobody can order in “${sale.title}” until it is resumed. Holds can still be paid, and the end stays ${dayAndTime(sale.ends_at_ms)}.${reaches(sale)}`,
    done: "Paused.",
  },
  resume: {
    name: "Resume",
    states: ["paused"],
    says: (sale) => `“${sale.title}” sells again at once: ${count(sale.units.available)} units are left.`,
    done: "Resumed.",
  },
  end: {
    name: "End now",
    grave: true,
    states: ["live", "not_started", "paused"],
    says: (sale) => `“${sale.title}” ends for good, ${duration(sale.ends_at_ms - serverNow())} before its time, with ${count(sale.units.available)} units left. Its ${count(sale.units.held)} held units can still be paid.${reaches(sale)} This can't be undone.`,
    done: "Ended.",
  },
  rehearse: {
    name: "Rehearse",
    states: ["not_started"],
    says: (sale) => `A crowd plays “${sale.title}” on this machine now, for a minute or two it takes the processors of this server. Nothing of the sale is changed. It stops when a sale is about to begin, or when it has not ended 15 min after its buyers came.`,
    // Where it would be refused, that is said in place of what it would do.
    fields: async (sale) => {
      const { why_not: why } = await ask(`/api/v1/rehearsal?sale=${sale.id}`);
      if (why) throw new Error(why);
      return [
        { name: "buyers", label: "Buyers, up to 200,000", type: "number", min: "1", value: "20000" },
        { name: "over_s", label: "They come within so many seconds, 4 to 60", type: "number", min: "4", value: "10" },
      ];
    },
    request: (sale, values) => ({
      method: "POST",
      path: `/api/v1/sales/${sale.id}/rehearse`,
      body: { buyers: Number(values.buyers.now), over_s: Number(values.over_s.now) },
    }),
    after: () => readRehearsal(),
    done: "It is begun: what it says stands under Rehearsal.",
  },
  delete: {
    name: "Delete",
    grave: true,
    states: ["not_started"],
    says: (sale) => `“${sale.title}” goes before it starts. Whoever has its page open finds no sale there, and its number, ${sale.id}, is never used again. This can't be undone.`,
    done: "Deleted.",
  },
};

// Of an item. The key makes a second sending of the same press the same change.
const units = (verb, name, says, done) => ({
  name,
  states: ["not_started", "live", "paused"],
  says,
  fields: () => [{ name: "units", label: "Units", type: "number", min: "1", value: "" }],
  request: (sale, values, item, key) => ({
    method: "POST",
    path: `/api/v1/sales/${sale.id}/items/${item.product}/${verb}`,
    body: { units: Number(values.units.now) },
    odd: verb === "restock" ? slipsOfRestock(item, Number(values.units.now)) : [],
    key,
  }),
  done,
});
const amount = (label, value, currency) => ({ label: `${label}, in the smallest unit of ${currency}`, type: "number", min: "0", value: String(value) });
const paceRequest = (sale, item, limit) => ({ method: "POST", path: `/api/v1/sales/${sale.id}/items/${item.product}/line/pace`, body: { per_s_max: limit } });
export const ITEM_ACTIONS = {
  edit: {
    name: "Edit",
    states: ["not_started"],
    says: (sale, item) => `Until “${sale.title}” starts, “${item.title}” is sold on the terms that stand here then. Only what you change is changed; pages that are open show it when they are read again.`,
    // What the figures do not have, as it is now.
    fields: async (sale, item) => {
      const place = sale.items.findIndex((other) => other.product === item.product);
      const answer = await fetch(`/api/v1/sales/${sale.id}?limit=1&cursor=${place}`);
      if (!answer.ok) throw new Error(await reason(answer));
      const { currency, items: [now] } = await answer.json();
      return [
        { name: "title", label: "Title", value: now.title },
        { name: "description", label: "Description", value: now.description, optional: true },
        { name: "price", ...amount("Price", now.price, currency) },
        { name: "list_price", ...amount("List price", now.list_price, currency) },
        { name: "limit", label: "Units per buyer; empty: no limit", type: "number", min: "1", value: now.limit === null ? "" : String(now.limit), optional: true },
      ];
    },
    request: (sale, values, item) => {
      const changed = { product: item.product };
      for (const [name, { before, now }] of Object.entries(values)) {
        if (now === before) continue;
        if (name === "title" || name === "description") changed[name] = now;
        else changed[name] = now === "" ? null : Number(now);
      }
      return Object.keys(changed).length > 1 && { method: "PATCH", path: `/api/v1/sales/${sale.id}`, body: { items: [changed] }, odd: slips({ items: [changed] }) };
    },
    done: "Changed.",
  },
  restock: units("restock", "Restock", (sale, item) => `So many units more of “${item.title}” are on sale at once. ${count(item.available)} of ${count(item.total)} are left now.`, "Restocked."),
  pace: {
    name: "Limit the pace",
    ofLine: true,
    states: ["not_started", "live", "paused", "ended"],
    says: (sale, item) => {
      const { pace_max_per_s: limit, turns } = item.line;
      const now = limit === null ? "no limit of its own" : `at most ${count(limit)} per second`;
      return `So many places in the line of “${item.title}” are reached per second at most, from now on; now it has ${now}. 0: nobody more is reached. Whoever was reached is called as before, the ${count(turns)} open turns stay, and whoever is sure stays sure and waits longer.`;
    },
    fields: (sale, item) => [{ name: "per_s_max", label: "Places per second; empty: no limit", type: "number", min: "0", value: item.line.pace_max_per_s === null ? "" : String(item.line.pace_max_per_s), optional: true }],
    request: (sale, values, item) => paceRequest(sale, item, values.per_s_max.now === "" ? null : Number(values.per_s_max.now)),
    done: "The pace is limited so.",
  },
  let_all_in: {
    name: "Let all in",
    ofLine: true,
    states: ["not_started", "live", "paused", "ended"],
    says: (sale, item) => `The pace of the line of “${item.title}” has no limit any more: everybody who is there is called at once, as far as there are units. ${count(item.line.waiting)} people wait, ${count(item.available)} units are free. Nobody overtakes anybody.`,
    request: (sale, values, item) => paceRequest(sale, item, null),
    done: "No limit holds the line back.",
  },
  message: {
    name: "Tell the line",
    ofLine: true,
    states: ["not_started", "live", "paused", "ended"],
    says: (sale, item) => `Everybody who has the page of the line of “${item.title}” open reads this within seconds, ${count(item.line.joined)} people if all who joined have. It is shown as it is typed, in one language, until it is changed; an empty one takes it away.`,
    // What they read now.
    fields: async (sale, item) => {
      const answer = await fetch(`/api/v1/sales/${sale.id}/items/${item.product}/line/message`);
      if (!answer.ok) throw new Error(await reason(answer));
      return [{ name: "message", label: "Message, at most 280 characters; empty: none", max: 280, value: (await answer.json()).message, optional: true }];
    },
    request: (sale, values, item) => ({ method: "POST", path: `/api/v1/sales/${sale.id}/items/${item.product}/line/message`, body: { message: values.message.now } }),
    done: "They are told so.",
  },
  correct: units("correct", "Correct", (sale, item) => `So many units of “${item.title}” that do not exist are taken off sale: of the ${count(item.available)} that are left, no more.`, "Corrected."),
};

const dialog = byId("ask");
let asked = null;

// `sale`: what it is about, with a title: a sale or an order.
export const open = async (action, sale, item) => {
  if (![sale.id, item?.product].every((number) => number === undefined || Number.isSafeInteger(number))) return say(TOO_LARGE);
  let fields;
  try {
    fields = await (action.fields?.(sale, item) ?? []);
  } catch (error) {
    return say(error.message);
  }
  asked = { action, sale, item, key: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` };
  const about = item ? item.title : sale.title;
  set(byId("ask-title"), about ? `${action.name}: ${about}` : action.name);
  set(byId("ask-says"), action.says(sale, item));
  set(byId("ask-do"), action.name);
  set(byId("ask-problem"), "");
  byId("ask-do").className = action.grave || action.final ? "grave" : "";
  byId("ask-do").disabled = false;
  byId("ask-typed").hidden = !action.grave;
  byId("typed").value = "";
  byId("ask-fields").replaceChildren(...[...fields, WHY].map(field));
  dialog.showModal();
};

const field = ({ name, label, type = "text", min, max, value, optional }) => {
  const input = element("input", { id: `field-${name}`, name, type, autocomplete: "off", "data-before": value });
  input.required = !optional;
  if (type === "datetime-local") input.step = "1";
  if (min) input.min = min;
  if (max) input.maxLength = max;
  input.value = value;
  // As the browser writes it: what is not touched is not changed.
  input.dataset.before = input.value;
  return element("p", {}, element("label", { for: input.id }, label), input);
};

byId("new-sale").addEventListener("click", () => open(create, { title: "" }));

// The buttons of a sale; `latest` finds it as it is when one is pressed.
export const saleButtons = (latest) =>
  Object.entries(ACTIONS).map(([call, action]) => {
    const button = element("button", { "data-call": call, class: action.grave ? "grave" : "quiet" }, action.name);
    button.addEventListener("click", () => open(action, latest()));
    return button;
  });

export const itemButtons = (latest, ofLine = false) =>
  Object.entries(ITEM_ACTIONS).filter(([, action]) => Boolean(action.ofLine) === ofLine).map(([call, action]) => {
    const button = element("button", { "data-item-call": call, class: "quiet" }, action.name);
    button.addEventListener("click", () => open(action, ...latest()));
    return button;
  });

const requestOf = ({ action, sale, item, key }) => {
  if (!action.request) {
    const call = Object.keys(ACTIONS).find((name) => ACTIONS[name] === action);
    return { method: "POST", path: `/api/v1/sales/${sale.id}/${call}` };
  }
  const inputs = [...byId("ask-fields").querySelectorAll("input")].filter((input) => input.name !== WHY.name);
  const values = Object.fromEntries(inputs.map((input) => [input.name, { before: input.dataset.before, now: input.value }]));
  return action.request(sale, values, item, key);
};

byId("ask-form").addEventListener("submit", async (event) => {
  if (event.submitter?.value === "no") return;
  event.preventDefault();
  const { action, sale } = asked;
  if (action.grave && byId("typed").value.trim() !== sale.title) {
    set(byId("ask-problem"), `That is not the title: “${sale.title}”.`);
    return byId("typed").focus();
  }
  const request = requestOf(asked);
  // What is rarely meant is asked about once.
  const odd = (request?.odd ?? []).join(" ");
  if (odd && asked.odd !== odd) {
    asked.odd = odd;
    return set(byId("ask-problem"), `${odd} Press again if that is meant.`);
  }
  if (!request) return set(byId("ask-problem"), "Nothing is changed yet.");
  if (request.problem) return set(byId("ask-problem"), request.problem);
  byId("ask-do").disabled = true;
  try {
    const headers = { "Content-Type": "application/json" };
    if (request.key) headers["Idempotency-Key"] = request.key;
    const why = byId(`field-${WHY.name}`).value;
    if (why) headers["Operator-Reason"] = encodeURIComponent(why);
    const answer = await fetch(request.path, { method: request.method, headers, body: JSON.stringify(request.body ?? {}) });
    if (!answer.ok) {
      const problem = await problemOf(answer);
      return set(byId("ask-problem"), (await action.refused?.(problem)) ?? problem.detail);
    }
    dialog.close();
    say(action.done);
    action.after?.();
  } catch {
    set(byId("ask-problem"), "No answer came: it may be done or not. The figures show it; pressing again does no harm.");
  } finally {
    byId("ask-do").disabled = false;
  }
});
