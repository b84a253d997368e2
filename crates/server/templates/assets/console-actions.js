// What an operator does. Each action says what it will do before it is done, and may be done twice without harm.
import { create, duplicate, runs } from "./console-making.js";
import { played, readRehearsal } from "./console-rehearsal.js";
import { slips, slipsOfRestock } from "./console-slips.js";
import { STALE_MS, STATES, TOO_LARGE, byId, call, count, dayAndTime, duration, elapsed, element, get, hasStarted, leftOf, localTime, money, night, people, problemOf, say, serverNow, set, unitsOf, unixTime } from "./console-words.js";

const WHY = { name: "why", label: "Why; kept beside your name", value: "", optional: true, max: 200 };

// How often an open page of a sale asks for its stock, as state.js has it.
const ASKS_EVERY_S = { live: 1.5, paused: 3 };

// Whom a change reaches, as far as is known: what their pages ask for.
const reaches = ({ state, stock_asked_per_s: asked, items }) => {
  const parts = [];
  // Of few, one second says little.
  const pages = Math.round(asked * ASKS_EVERY_S[state]);
  if (pages > 0) parts.push(`${pages < 10 ? "fewer than 10" : `about ${count(pages)}`} open pages ask for its stock`);
  const lines = items.flatMap(({ line }) => (line ? [line] : []));
  if (lines.length > 0) parts.push(`${people(lines.reduce((sum, line) => sum + line.waiting, 0), "wait")} in its lines`);
  return parts.length > 0 ? ` Now ${parts.join(", ")}.` : "";
};

// Spaces that a page does not show, at the ends and doubled, are nobody's to type.
const titleOf = ({ title }) => ({ what: "the sale's title", text: title, alike: (text) => text.normalize("NFC").trim().replace(/\s+/g, " ") });

// A new end before the one that buyers know, once the sale has started.
const endsSooner = (sale, ends) => {
  if (!hasStarted(sale) || !(ends < sale.ends_at_ms)) return undefined;
  const left = ends - serverNow();
  return { ...titleOf(sale), says: `“${sale.title}” ends ${left > 0 ? `in ${duration(left)}` : "at once"}, ${duration(sale.ends_at_ms - Math.max(ends, serverNow()))} before its time, with ${unitsOf(leftOf(sale.units))} left.${reaches(sale)}` };
};

// Whether an action is for a sale as it is now: for any, without `states`. `before_start`: also while it is paused.
export const isOffered = ({ states }, sale) => !states || states.includes(sale.state) || (states.includes("before_start") && !hasStarted(sale));

const joinedIn = (sale) => sale.items.reduce((sum, { line }) => sum + (line?.joined ?? 0), 0);

// Of a sale.
export const ACTIONS = {
  edit: {
    name: "Edit",
    states: ["not_started", "live", "paused"],
    says: () => "Only what you change is changed. Times are yours, to the second.",
    sum: runs,
    fields: async (sale) => {
      const { payment_s: payment } = await get(`/api/v1/sales/${sale.id}?limit=1`);
      return [
        { name: "title", label: "Title", value: sale.title },
        ...(hasStarted(sale) ? [] : [{ name: "starts_at_ms", label: "Starts at", type: "datetime-local", value: localTime(sale.starts_at_ms) }]),
        { name: "ends_at_ms", label: "Ends at", type: "datetime-local", value: localTime(sale.ends_at_ms) },
        ...(payment === null ? [] : [{ name: "payment_s", label: "Seconds to pay, for orders from now on", min: "1", value: String(payment) }]),
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
      return Object.keys(body).length > 0 && { method: "PATCH", path: `/api/v1/sales/${sale.id}`, body, odd: slips({ ...body, length_ms: length, told: starts < sale.starts_at_ms ? joinedIn(sale) : 0 }), typed: endsSooner(sale, ends) };
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
    says: (sale) => `“${sale.title}” ${hasStarted(sale) ? "sells again at once" : `starts as planned, in ${duration(sale.starts_at_ms - serverNow())}`}: ${count(leftOf(sale.units))} units are left.`,
    done: "Resumed.",
  },
  end: {
    name: "End now",
    typed: titleOf,
    states: ["live", "not_started", "paused"],
    says: (sale) => `“${sale.title}” ends for good, ${duration(sale.ends_at_ms - serverNow())} before its time, with ${unitsOf(leftOf(sale.units))} left. Its ${unitsOf(sale.units.held, "held ")} can still be paid.${reaches(sale)} This can't be undone.`,
    done: "Ended.",
  },
  rehearse: {
    name: "Rehearse",
    states: ["before_start"],
    says: (sale) => `A crowd plays “${sale.title}” on this machine now, for a minute or two it takes the processors of this server. Nothing of the sale is changed. It stops when a sale is about to begin, or when it has not ended 15 min after its buyers came.`,
    // Where it would be refused, that is said in place of what it would do.
    fields: async (sale) => {
      const { why_not: why } = await get(`/api/v1/rehearsal?sale=${sale.id}`);
      if (why) throw new Error(why);
      return [
        { name: "buyers", label: "Buyers, up to 200,000", min: "1", value: "20000" },
        { name: "over_s", label: "They come within so many seconds, 4 to 60", min: "4", value: "10" },
      ];
    },
    request: (sale, values, _, key) => ({
      method: "POST",
      path: `/api/v1/sales/${sale.id}/rehearse`,
      body: { buyers: Number(values.buyers.now), over_s: Number(values.over_s.now) },
      key,
    }),
    after: () => readRehearsal(),
    done: "It is begun: what it says stands under Rehearsal.",
  },
  delete: {
    name: "Delete",
    typed: titleOf,
    states: ["before_start"],
    says: (sale) => `“${sale.title}” goes before it starts. Whoever has its page open finds no sale there, and its number, ${sale.id}, is never used again. This can't be undone.`,
    done: "Deleted.",
  },
};

// What can be counted exactly: the rest the server refuses, and it is not previewed as something else.
const isWhole = (text) => Number(text) > 0 && Number.isSafeInteger(Number(text));
// Of an item. The key makes a second sending of the same press the same change.
const units = (verb, name, says, sum, done) => ({
  name,
  states: ["not_started", "live", "paused"],
  says,
  sum: (item, values) => (isWhole(values.units.now) ? sum(item, Number(values.units.now)) : ""),
  fields: () => [{ name: "units", label: "Units", min: "1", value: "" }],
  request: (sale, values, item, key) => ({
    method: "POST",
    path: `/api/v1/sales/${sale.id}/items/${item.product}/${verb}`,
    body: { units: Number(values.units.now) },
    odd: verb === "restock" && isWhole(values.units.now) ? slipsOfRestock(item, Number(values.units.now)) : [],
    key,
  }),
  done,
});
const amount = (label, value, currency) => ({ label: `${label}, in the smallest unit of ${currency}`, min: "0", value: String(value) });
// A limit can be changed again; whoever was called because there is none stays called.
const paceRequest = (sale, item, limit) => ({ method: "POST", path: `/api/v1/sales/${sale.id}/items/${item.product}/line/pace`, body: { per_s_max: limit }, typed: limit === null ? titleOf(sale) : undefined });
export const ITEM_ACTIONS = {
  edit: {
    name: "Edit",
    states: ["before_start"],
    says: (sale, item) => `Until “${sale.title}” starts, “${item.title}” is sold on the terms that stand here then. Only what you change is changed; pages that are open show it when they are read again.`,
    sum: (_, values, { currency }) => `A unit costs ${money(values.price.now, currency)}.`,
    // What the figures do not have, as it is now.
    fields: async (sale, item) => {
      const place = sale.items.findIndex((other) => other.product === item.product);
      const { currency, items: [now] } = await get(`/api/v1/sales/${sale.id}?limit=1&cursor=${place}`);
      return [
        { name: "title", label: "Title", value: now.title },
        { name: "description", label: "Description", value: now.description, optional: true },
        { name: "price", ...amount("Price", now.price, currency) },
        { name: "list_price", ...amount("List price", now.list_price, currency) },
        { name: "limit", label: "Units per buyer; empty: no limit", min: "1", value: now.limit === null ? "" : String(now.limit), optional: true },
      ];
    },
    request: (sale, values, item) => {
      const changed = { product: item.product };
      for (const [name, { before, now }] of Object.entries(values)) {
        if (now === before) continue;
        if (name === "title" || name === "description") changed[name] = now;
        else changed[name] = now === "" ? null : Number(now);
      }
      const isPriced = "price" in changed || "list_price" in changed;
      const odd = slips({ currency: sale.currency, items: isPriced ? [{ product: item.product, price: Number(values.price.now), list_price: Number(values.list_price.now) }] : [] });
      return Object.keys(changed).length > 1 && { method: "PATCH", path: `/api/v1/sales/${sale.id}`, body: { items: [changed] }, odd };
    },
    done: "Changed.",
  },
  restock: units("restock", "Restock", (sale, item) => `So many units more of “${item.title}” are on sale ${sale.state === "live" ? "at once" : hasStarted(sale) ? "once it is resumed" : "once it starts"}. ${count(leftOf(item))} of ${count(item.total)} are left now.`, (item, more) => `Adds ${count(more)} to ${count(item.total)}: ${count(item.total + more)} in all, ${count(leftOf(item) + more)} of them left.`, "Restocked."),
  pace: {
    name: "Limit the pace",
    ofLine: true,
    says: (sale, item) => {
      const { pace_max_per_s: limit, turns } = item.line;
      const now = limit === null ? "no limit of its own" : `at most ${count(limit)} per second`;
      return `So many places in the line of “${item.title}” are reached per second at most, from now on; now it has ${now}. 0: nobody more is reached. Whoever was reached is called as before, the ${count(turns)} open turns stay, and whoever is sure stays sure and waits longer.`;
    },
    fields: (sale, item) => [{ name: "per_s_max", label: "Places per second; empty: no limit", min: "0", value: item.line.pace_max_per_s === null ? "" : String(item.line.pace_max_per_s), optional: true }],
    request: (sale, values, item) => paceRequest(sale, item, values.per_s_max.now === "" ? null : Number(values.per_s_max.now)),
    done: "The pace is limited so.",
  },
  let_all_in: {
    name: "Let all in",
    typed: titleOf,
    ofLine: true,
    says: (sale, item) => `The pace of the line of “${item.title}” has no limit any more: everybody who is there is called at once, as far as there are units. ${people(item.line.waiting, "wait")}, ${count(item.available)} units are free. Nobody overtakes anybody. This can't be undone.`,
    request: (sale, values, item) => paceRequest(sale, item, null),
    done: "No limit holds the line back.",
  },
  message: {
    name: "Tell the line",
    ofLine: true,
    says: (sale, item) => `Everybody who has the page of the line of “${item.title}” open reads this within seconds, ${people(item.line.joined)} if all who joined have. It is shown as it is typed, in one language, until it is changed; an empty one takes it away.`,
    // What they read now.
    fields: async (sale, item) => {
      const { message } = await get(`/api/v1/sales/${sale.id}/items/${item.product}/line/message`);
      return [{ name: "message", label: "Message, at most 280 characters; empty: none", max: 280, value: message, optional: true }];
    },
    request: (sale, values, item) => ({ method: "POST", path: `/api/v1/sales/${sale.id}/items/${item.product}/line/message`, body: { message: values.message.now } }),
    done: "They are told so.",
  },
  correct: units("correct", "Correct", (sale, item) => `So many units of “${item.title}” that do not exist are taken off sale: of the ${count(item.available)} that are ${item.line ? "free, no more, and none that is kept for people in its line who are sure" : "left, no more"}.`, (item, off) => (off > item.available ? `Only ${count(item.available)} are ${item.line ? "free" : "left"}: ${count(off)} can't be taken off.` : `Takes ${count(off)} off ${count(item.total)}: ${count(item.total - off)} in all, ${count(leftOf(item) - off)} of them left.`), "Corrected."),
};

const stop = {
  name: "Stop the rehearsal",
  says: () => "It ends within a minute, without saying what this installation carries, and removes what it has made. It can be played again from the start.",
  request: (shown) => ({ method: "POST", path: "/api/v1/rehearsal/stop", body: { began_at_ms: shown.began_at_ms } }),
  after: () => readRehearsal(),
  done: "It stops, and removes what it has made.",
};

const dialog = byId("ask");
let asked = null;

// Presses that nobody answered: done or not. Until one of the same, by the same operator, is answered its key stays, and what was
// typed, also over a reload of the page.
const UNANSWERED = "unanswered";
const UNKNOWN = "No answer came: it is not known whether it was done. The figures show it. Pressing again asks for the same, and does it once.";
const DRAFT = "This is what you typed before you were signed out; nothing of it was done.";
const unanswered = JSON.parse(sessionStorage.getItem(UNANSWERED) ?? "{}");
// Drafts are of that night: not so many, nor so old. A press that nobody answered stays.
const DRAFTS_MAX = 20;
const DRAFT_MS_MAX = 12 * 3_600_000;
const dropDrafts = () => {
  const latest = Object.keys(unanswered).filter((name) => unanswered[name].draft).reverse();
  for (const [at, name] of latest.entries()) if (at >= DRAFTS_MAX || Date.now() - unanswered[name].draft > DRAFT_MS_MAX) delete unanswered[name];
};
// The latest is the last.
const keep = (name, press) => {
  delete unanswered[name];
  if (press) unanswered[name] = press;
  dropDrafts();
  sessionStorage.setItem(UNANSWERED, JSON.stringify(unanswered));
};
// What was changed, or all that stands there; with what stood there, which somebody else may change meanwhile.
const entered = (isAll) => {
  const found = inputs().filter(({ value, dataset }) => isAll || value !== dataset.before);
  const of = (what) => Object.fromEntries(found.map((input) => [input.name, what(input)]));
  return { values: of(({ value }) => value), seen: of(({ dataset }) => dataset.before) };
};

/** The session ends: what is typed and was not sent is there again for whoever typed it, once they have signed in. */
export const keepTyped = () => {
  if (!dialog.open || !(unanswered[asked.name]?.draft ?? !unanswered[asked.name])) return;
  keep(asked.name, { ...entered(), draft: Date.now() });
};
export const sayKept = () => {
  dropDrafts();
  const who = byId("who").textContent;
  const kept = Object.keys(unanswered).map((name) => JSON.parse(name)).find((of) => of[0] === who);
  if (kept) say(`What you typed at “${kept[1]}” is kept until you press that again.`);
};
dialog.addEventListener("close", () => {
  if (unanswered[asked.name]?.draft) keep(asked.name);
});
const newKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;

// Where the keyboard was when something was opened, until it is anywhere else.
let place = null;
const placeOf = (button) => {
  const within = button.closest("article, #found-order");
  const above = button.closest("#verdict") ? "says" : button.closest("[aria-labelledby$=-title]")?.getAttribute("aria-labelledby");
  return { button, id: within?.id, at: [...(within?.querySelectorAll("button") ?? [])].indexOf(button), above };
};
/** Before what has it may be made anew. */
export const notePlace = () => {
  if (!dialog.open && !place?.above) place = placeOf(document.activeElement);
};
document.addEventListener("pointerdown", () => {
  if (!dialog.open) place = null;
});
document.addEventListener("focusin", ({ target }) => {
  if (target !== place?.button && !dialog.contains(target)) place = null;
});

/** What was pressed may be gone by what came of it: then whoever uses a keyboard goes on at the same button made anew, at one beside it that can be undone, or at the heading above. */
export const keepFocus = () => {
  const now = document.activeElement;
  if (!place?.above || dialog.open || (now !== document.body && now.checkVisibility())) return;
  const { button, id, at, above } = place;
  const within = id ? byId(id) : null;
  const anew = within?.querySelectorAll("button")[at];
  const row = [...(button.parentElement?.children ?? [])];
  const own = row.indexOf(button);
  const beside = [...row.slice(own + 1), ...row.slice(0, Math.max(own, 0)).reverse()].filter((node) => node.className === "quiet");
  const next = [button, anew?.textContent === button.textContent ? anew : null, ...beside, within?.querySelector("h3"), byId(above)].find((node) => node?.checkVisibility());
  if (!next) return;
  if (next.localName !== "button") next.tabIndex = -1;
  place.button = next;
  next.focus({ preventScroll: true });
};

const nameOf = (action, sale, item) => {
  const about = item ? item.title : sale.title;
  return about ? `${action.name}: ${about}` : action.name;
};

// What is asked for may come late, and then something else has been opened.
let opened = 0;

// `sale`: what it is about, with a title: a sale or an order.
const open = async (action, sale, item) => {
  const pressed = document.activeElement;
  const own = ++opened;
  if (![sale.id, item?.product].every((number) => number === undefined || Number.isSafeInteger(number))) return say(TOO_LARGE);
  const name = JSON.stringify([byId("who").textContent, action.name, sale.id, item?.product, sale.order?.id, sale.payment?.payment_id]);
  dropDrafts();
  const before = unanswered[name];
  let fields, key;
  try {
    fields = await (action.fields?.(sale, item) ?? []);
    const next = await (action.key ?? newKey)();
    key = before?.key ?? next;
  } catch (error) {
    return say(error.message);
  }
  if (own !== opened) return;
  asked = { name, action, sale, item, key };
  set("ask-do", action.name);
  set("ask-problem", before?.draft ? DRAFT : before ? UNKNOWN : "");
  byId("ask-do").className = action.typed ? "grave" : "";
  wait(false);
  askToType(action.typed?.(sale));
  byId("ask-fields").replaceChildren(...[...fields, WHY].map(field));
  for (const input of inputs()) {
    input.value = before?.values[input.name] ?? input.value;
    input.dataset.before = before?.seen?.[input.name] ?? input.dataset.before;
  }
  set("ask-new", "");
  sayAll();
  place = placeOf(pressed);
  dialog.showModal();
};

// What is asked, of the figures as they are. Nothing that is typed, and no place of the keyboard, is changed by it.
const sayAll = () => {
  const { action } = asked;
  const shown = night.figures.sales.find(({ id }) => id === asked.sale.id);
  const sale = shown ?? asked.sale;
  const age = elapsed() - night.takenAt;
  // An order has an age of its own.
  const isOld = Boolean(shown) && age > STALE_MS;
  const item = sale.items?.find(({ product }) => product === asked.item?.product);
  asked.sale = sale;
  if (item && (item.line || !action.ofLine)) asked.item = item;
  const ends = byId("ask-typed").hidden || action.typed ? undefined : requestOf(asked)?.typed;
  const parts = [ends?.says ?? action.says(sale, asked.item)];
  if (!isOffered(action, sale)) parts[0] = `“${sale.title}” is ${STATES[sale.state]} now: this is not offered any more.`;
  if (isOld) parts.push(`As of ${duration(age)} ago.`);
  set("ask-title", nameOf(action, sale, asked.item));
  set("ask-says", parts.join(" "));
  showSum();
  // What makes it mean something else.
  const meaning = JSON.stringify([sale.title, sale.state, sale.state && hasStarted(sale), isOld]);
  if ((asked.meaning ?? meaning) !== meaning) set("ask-new", parts.join(" "));
  asked.meaning = meaning;
};
/** As time passes; while an answer is waited for it stands. Whoever hears the page hears it again when it means something else, and no more. */
export const sayAsked = () => {
  if (dialog.open && !isWaiting()) sayAll();
};

// While its answer is waited for. `aria-disabled`, never `disabled`: the button must not drop the keyboard's focus when it is pressed.
const wait = (now) => byId("ask-do").setAttribute("aria-disabled", String(now));
const isWaiting = () => byId("ask-do").getAttribute("aria-disabled") === "true";

const askToType = (typed) => {
  byId("ask-typed").hidden = !typed;
  byId("typed").value = "";
  set(byId("ask-typed").firstElementChild, `To go on, type ${typed?.what}`);
};

// With a `min` a number.
const field = ({ name, label, min, type = min ? "number" : "text", max, value, optional }) => {
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

// What would come of the units that are typed.
const showSum = () => set("ask-sum", asked.action.sum?.(asked.item, typedIn(), asked.sale) ?? "");
byId("ask-fields").addEventListener("input", ({ target }) => {
  showSum();
  // What was asked about is not what stands there now.
  if (target.name === WHY.name || !byId("ask-problem").textContent.endsWith(AGAIN)) return;
  asked.odd = undefined;
  set("ask-problem", "");
});
// Heard once a field is left: times go on while somebody types.
byId("ask-fields").addEventListener("change", () => set("ask-new", byId("ask-sum").textContent));

byId("new-sale").addEventListener("click", () => open(create, { title: "" }));
byId("rehearsal-stop").addEventListener("click", () => open(stop, played));

/** A button for each action, by its call; `latest` finds what they are about as it is when one is pressed. */
export const buttonsOf = (actions, attribute, latest) =>
  actions.map(([call, action]) => {
    const button = element("button", { [attribute]: call, class: action.typed ? "grave" : "quiet" }, action.name);
    button.addEventListener("click", () => open(action, ...latest()));
    return button;
  });
export const saleButtons = (latest) => buttonsOf(Object.entries(ACTIONS), "data-call", latest);
export const itemButtons = (latest, ofLine = false) => buttonsOf(Object.entries(ITEM_ACTIONS).filter(([, action]) => Boolean(action.ofLine) === ofLine), "data-item-call", latest);

// What the verdict says to do, of what can be pressed below as the sale is now; undefined: nothing.
const toPress = ({ kind, sale: id, product }) => {
  if (kind === "create") return [create, { title: "" }];
  const isOfItem = (product ?? null) !== null;
  const action = (isOfItem ? ITEM_ACTIONS : ACTIONS)[kind];
  const sale = night.figures.sales.find((of) => of.id === id);
  const item = isOfItem ? sale?.items.find((of) => of.product === product) : undefined;
  if (action && sale && isOffered(action, sale) && (item || !isOfItem) && (item?.line || !action.ofLine)) return [action, sale, item];
};
/** Its button, which asks as the others do; the same node until it is for something else. */
export const showAct = (act) => {
  const now = act ? toPress(act) : undefined;
  const [box, name] = [byId("act"), now ? nameOf(...now) : ""];
  const shown = now ? JSON.stringify([act, name]) : "";
  if ((box.dataset.shown ?? "") === shown) return;
  box.dataset.shown = shown;
  if (box.contains(document.activeElement)) notePlace();
  box.replaceChildren();
  if (!now) return;
  const button = element("button", { [now[2] ? "data-item-call" : "data-call"]: act.kind, class: now[0].typed ? "grave" : "" }, name);
  button.addEventListener("click", () => open(...toPress(act)));
  box.append(button);
};

const inputs = () => [...byId("ask-fields").querySelectorAll("input")];
const typedIn = () => Object.fromEntries(inputs().map((input) => [input.name, { before: input.dataset.before, now: input.value }]));

const requestOf = ({ action, sale, item, key }) => {
  if (!action.request) {
    const call = Object.keys(ACTIONS).find((name) => ACTIONS[name] === action);
    return { method: "POST", path: `/api/v1/sales/${sale.id}/${call}` };
  }
  const { [WHY.name]: _, ...values } = typedIn();
  return action.request(sale, values, item, key);
};

// Of what is changed here, what somebody else has changed since this was opened.
const overtaken = async ({ action, sale, item }) => {
  const found = [];
  for (const fresh of await action.fields(sale, item)) {
    const [now, typed] = [field(fresh).lastChild, byId(`field-${fresh.name}`)];
    const isChanged = typed.value !== typed.dataset.before && typed.value !== now.value;
    if (isChanged && now.dataset.before !== typed.dataset.before) found.push(`${fresh.label}: somebody else has made it “${now.value}” meanwhile.`);
  }
  return found;
};

const AGAIN = "Press again if that is meant.";
// In sight, also in a long form. A question takes the keyboard from the field, whose next Enter would answer what nobody has read.
const tell = (problem) => {
  const node = byId("ask-problem");
  set(node, problem);
  if (node.textContent.endsWith(AGAIN)) node.focus();
  node.scrollIntoView({ block: "nearest" });
};

// What keeps it from being sent, if anything does.
const objection = (press, request) => {
  const { action, sale } = press;
  if (!request) return "Nothing is changed yet.";
  if (request.problem) return request.problem;
  const typed = action.typed?.(sale) ?? request.typed;
  if (typed) {
    const isAsked = !byId("ask-typed").hidden;
    if (!isAsked) askToType(typed);
    sayAsked();
    if (typed.alike(byId("typed").value) !== typed.alike(typed.text)) {
      byId("typed").focus();
      return isAsked ? `That is not ${typed.what}: “${typed.text}”.` : `This can't be taken back: type ${typed.what}.`;
    }
  }
  // What is rarely meant is asked about once.
  const odd = (request.odd ?? []).join(" ");
  if (!odd || (press.odd === odd && !inputs().includes(document.activeElement))) return "";
  press.odd = odd;
  return `${odd} ${AGAIN}`;
};

// What came of it, in words; null: it is done.
const send = async (press, request) => {
  const headers = { "Content-Type": "application/json" };
  if (request.key) headers["Idempotency-Key"] = request.key;
  const why = byId(`field-${WHY.name}`).value;
  if (why) headers["Operator-Reason"] = encodeURIComponent(why);
  const before = unanswered[press.name];
  // Defaults are part of what is made, and a change has only what was changed.
  keep(press.name, { key: press.key, ...entered(request.method !== "PATCH") });
  const answer = await call(request.path, { method: request.method, headers, body: JSON.stringify(request.body ?? {}) }).catch(() => null);
  const problem = !answer || answer.ok ? {} : await problemOf(answer);
  // What has no code is a proxy's.
  if (!answer || problem.code === "outcome_unknown" || (answer.status >= 500 && !problem.code)) return UNKNOWN;
  // Who asked was not known any more, or it was not looked at, as by a proxy: that says nothing of an earlier sending.
  const isJudged = answer.ok || (problem.code && answer.status < 500 && ![401, 403, 429].includes(answer.status));
  const draft = answer.status === 401 && !before?.key && { ...unanswered[press.name], key: undefined, draft: Date.now() };
  keep(press.name, isJudged ? undefined : draft || before);
  if (answer.ok) return null;
  if (problem.code !== "key_conflict") return (await press.action.refused?.(problem, press)) ?? problem.detail;
  press.key = newKey();
  return "An earlier press was done, with other values: look at the figures. Pressing again makes another change.";
};

byId("ask-form").addEventListener("submit", async (event) => {
  if (event.submitter?.value === "no") return;
  event.preventDefault();
  if (isWaiting()) return;
  const press = asked;
  const { action } = press;
  const request = requestOf(press);
  if (request?.method === "PATCH") {
    wait(true);
    request.odd.push(...(await overtaken(press).catch(() => [])));
    if (asked !== press || !dialog.open) return;
    wait(false);
  }
  const problem = objection(press, request);
  tell(problem);
  if (problem) return;
  wait(true);
  const told = await send(press, request).catch((error) => error.message);
  // Whoever closed the dialog meanwhile is told all the same.
  const isOpen = asked === press && dialog.open;
  if (isOpen) wait(false);
  if (told !== null) return isOpen ? tell(told) : say(`${action.name}: ${told}`);
  if (isOpen) dialog.close();
  say(action.done);
  action.after?.();
});
