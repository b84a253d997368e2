// The console: the server's figures as they come, and what an operator does about them.
// Nothing here judges: whether it goes well, the server says. What is older than LIVE_MS is not called live, and what is older
// than STALE_MS says nothing of now.
import { ACTIONS, ITEM_ACTIONS, isOffered, itemButtons, keepFocus, keepTyped, notePlace, sayAsked, saleButtons, sayKept, showAct } from "./console-actions.js";
import "./console-attempts.js";
import "./console-orders.js";
import { appendToCharts, chooseItem, startCharts } from "./console-charts.js";
import { followIncidents } from "./console-incidents.js";
import { drawLine, newLines } from "./console-lines.js";
import { readRehearsal } from "./console-rehearsal.js";
import { showServers } from "./console-servers.js";
import { STALE_MS, STATES, aged, byId, bytes, call, clockTime, count, dayAndTime, duration, elapsed, element, get, hasStarted, known, leftOf, lineAt, milliseconds, night, rate, reason, rowOf, say, serverNow, set, showAges, tableOf, tiles } from "./console-words.js";

// Figures come once a second.
const LIVE_MS = 2000;
// About so long: a server that is back is not asked by all consoles at the same moment.
const RETRY_MS = [0, 1000, 1000, 1500, 2000, 3000];
// A connection may be gone without a word.
const SILENT_MS = 15000;
const SESSION = "/api/v1/console/session";
const EVENTS = "/api/v1/figures/events";
// After so many streams that ended at once, the server is asked why.
const ENDED_MAX = 2;
// What is said to whoever has to sign in, once the page was read again.
const SIGNED_OUT = "signed-out";

const board = byId("board");
const title = document.querySelector("title");
const NO_OPERATOR = "No operator has this token: it is mistyped, or was revoked.";
const signIn = byId("sign-in");
const signInSays = (text) => set("sign-in-problem", text);

let stream = null;
let connectedAt = 0;
let heardAt = 0;
let failures = 0;
let attempts = 0;
// Drawing the latest figures: what is shown may be of before.
let hasFailed = false;
let hasJustSignedIn = false;

// The connection.

const connect = () => {
  stream?.close();
  stream = new EventSource(EVENTS);
  connectedAt = elapsed();
  stream.onmessage = (event) => {
    failures = 0;
    receive(JSON.parse(event.data));
  };
  stream.onerror = connectAgain;
};

const connectAgain = () => {
  stream.close();
  stream = null;
  enter();
};

// The server ends each stream after a while, so that a session that is over ends with it.
const enter = async () => {
  const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
  failures += 1;
  attempts += 1;
  const attempt = attempts;
  await new Promise((resolve) => setTimeout(resolve, wait * (0.75 + Math.random() / 2)));
  const session = attempt === attempts && (await get(SESSION).catch(() => null));
  // Somebody has pressed meanwhile.
  if (attempt !== attempts) return;
  refused = session?.signed_in && failures > ENDED_MAX ? await whyNone() : "";
  if (attempt !== attempts) return;
  set("away-says", refused || "The server can't be reached. It is asked again by itself.");
  byId("away").hidden = (session !== null && !refused) || night.figures !== null;
  if (session === null) return enter();
  if (session.signed_in) admit(session);
  else askToSignIn();
};

// A stream of events does not say why it was refused.
let refused = "";
const whyNone = async () => {
  const answer = await call(EVENTS).catch(() => null);
  if (answer && !answer.ok) return reason(answer);
  answer?.body.cancel();
  return "";
};

// Who acts here, and so what there is to press; the server judges every call anyway.
const admit = ({ operator, role }) => {
  signIn.hidden = true;
  set("who", `${operator}, ${role}`);
  if (hasJustSignedIn) sayKept();
  hasJustSignedIn = false;
  document.body.dataset.role = role;
  byId("sign-out").hidden = false;
  connect();
};

const askToSignIn = () => {
  if (night.figures !== null) {
    keepTyped();
    return leave("You were signed out.");
  }
  if (hasJustSignedIn) signInSays("The browser has no session now: it keeps no cookie of this page, or the token has just ended.");
  hasJustSignedIn = false;
  signIn.hidden = false;
  set("age", "not signed in");
  byId("token").focus();
};

// Nothing of the night stays in a page that is read anew.
const leave = (why) => {
  stream?.close();
  sessionStorage.setItem(SIGNED_OUT, why);
  location.reload();
};

byId("try-again").addEventListener("click", () => {
  failures = 0;
  enter();
});

// An answer says that nobody is signed in.
document.addEventListener("doubted", async () => {
  const session = night.figures && (await get(SESSION).catch(() => null));
  if (session && !session.signed_in) askToSignIn();
});

signIn.addEventListener("submit", async (event) => {
  event.preventDefault();
  signInSays("");
  const token = byId("token").value.trim();
  // More than ASCII a header does not carry, and no token has it.
  if (!/^[ -~]+$/.test(token)) return signInSays(NO_OPERATOR);
  try {
    const headers = { Authorization: `Bearer ${token}` };
    const answer = await call(SESSION, { method: "POST", headers });
    if (answer.status === 401) return signInSays(NO_OPERATOR);
    if (!answer.ok) return signInSays(await reason(answer));
    byId("token").value = "";
    failures = 0;
    hasJustSignedIn = true;
    enter();
  } catch {
    signInSays("The server can't be reached. Try again.");
  }
});

byId("sign-out").addEventListener("click", async () => {
  try {
    const answer = await call(`${SESSION}/end`, { method: "POST" });
    if (!answer.ok) return say(await reason(answer));
    sessionStorage.clear();
    leave("");
  } catch {
    say("No answer came: you may still be signed in.");
  }
});

// The figures.

const receive = (latest) => {
  const before = night.figures;
  heardAt = elapsed();
  // A stream begins with the latest sample, however old it is, and again if it was seen before.
  const takenAt = heardAt - latest.age_ms;
  const isSeen = before !== null && ["server", "number", "at_ms"].every((name) => before[name] === latest[name]);
  night.takenAt = isSeen ? Math.min(night.takenAt, takenAt) : takenAt;
  night.figures = latest;
  board.hidden = false;
  hasFailed = false;
  drawing(() => {
    if (before === null) {
      startCharts();
      readRehearsal();
    }
    draw();
    if (!isSeen) appendToCharts(latest);
  });
  tick();
};

// What throws is reported, and said at the head until figures are drawn again.
const drawing = (part) => {
  try {
    part();
  } catch (error) {
    hasFailed = true;
    reportError(error);
  }
};

const age = () => elapsed() - night.takenAt;

// Whoever hears the page hears what is new of it, and not each second how many orders there were.
let announced = "";

const verdict = (level, says, toDo, section, act = null) => {
  showAct(act);
  byId("verdict").dataset.level = level;
  if (announced !== level + section) {
    announced = level + section;
    set("announced", `${level}: ${says} ${toDo}`);
  }
  set("level", level);
  set("says", says);
  byId("runbook").href = `/console/runbook#${encodeURIComponent(section)}`;
  if (byId("do").dataset.text !== toDo) {
    byId("do").dataset.text = toDo;
    // Between backticks there is something to be typed.
    byId("do").replaceChildren(...toDo.split("`").map((part, at) => (at % 2 === 1 ? element("code", {}, part) : part)));
  }
};

const draw = () => {
  const { figures } = night;
  const { health, rates, order_route: route, sales, servers } = figures;
  set("server", figures.server ?? "");
  const { units: open } = figures.open;
  // Of a cluster: not read from the ledger for a while, which a server does each second.
  const unitsAge = health.units_age_ms >= STALE_MS ? health.units_age_ms : 0;
  const units = unitsAge > 0 ? `, as of ${clockTime(figures.at_ms - unitsAge)}` : "";
  const reasons = mostFirst(figures.refused_by_code);
  const since = figures.totals_since_ms ?? null;
  const sinceStart = since === null ? "since the start" : `since each server's start, the last ${dayAndTime(since)}`;
  tiles(byId("tiles"), [
    ["Accepted per second", rate(rates.accepted), `${count(figures.totals.accepted)} ${sinceStart}`],
    ["Refused per second", rate(rates.refused), reasons.slice(0, 2).map(([code, per]) => worded(code, per)).join(", ")],
    ["Busy per second", rate(rates.busy), "asked to come again"],
    ["Unknown per second", rate(rates.unknown), `${count(figures.totals.unknown)} ${sinceStart}`],
    ...["p50", "p99"].map((of) => [`Order, ${of}`, route ? `${milliseconds(route[`${of}_ms`])} ms` : "–", "to answer, but those refused at once"]),
    ["Left", count(leftOf(open)), "units of what sells"],
    ["Held", count(open.held), `not paid yet${units}`],
    ["Sold", count(open.sold), `paid${units}`],
  ]);
  const limit = (number) => (number > 0 ? ` of ${count(number)}` : "");
  tiles(byId("health"), [
    ["Takes orders", health.ready ? (health.part_away ? "not for all" : "yes") : "no", health.reasons.join(" ")],
    ...(servers.length > 1 ? [["Servers", `${servers.filter((of) => of.counted).length} of ${servers.length}`, servers.map(ofServer).join("; ")]] : []),
    ...health.engines.map(({ engine, fault }) => [engine, fault === null ? "well" : "not well", fault ?? ""]),
    ["Commands waiting", `${count(health.mailbox)} of ${count(health.mailbox_max)}`, "for what carries them out"],
    ["Orders in flight", `${count(health.in_flight)}${limit(health.in_flight_max)}`],
    ["Admitted per second", health.orders_per_s_max > 0 ? `at most ${count(health.orders_per_s_max)}` : "all", carried(health.measured_peak)],
    ["Commit, p50 and p99", health.commit ? `${milliseconds(health.commit.p50_ms)} and ${milliseconds(health.commit.p99_ms)} ms` : "none now"],
    ["Refunds due", known(health.refunds_due, count)],
    ...(health.webhooks ? [["Webhooks waiting", count(health.webhooks.waiting), toldLate(health.webhooks)]] : []),
    ...(health.dead_letters === null
      ? []
      : [
          ["Messages waiting", health.backlog === null ? "not known" : count(health.backlog), health.backlog_age_ms >= 1000 ? `the oldest for ${duration(health.backlog_age_ms)}` : "in all queues"],
          ["Dead letters", count(health.dead_letters), health.dead_letter_age_ms === null ? "since the servers' start" : `the last ${duration(health.dead_letter_age_ms)} ago`],
        ]),
    ["Processors busy", known(health.processors_busy, (part) => `${Math.round(part * 100)} %`)],
    ["Connections", count(health.connections)],
    ["Requests per second", rate(rates.requests)],
    // Of a cluster each server has its own, below.
    ...(health.dead_letters === null
      ? [
          ["Memory", known(health.memory_bytes, bytes)],
          ["Disk free", known(health.disk_free_bytes, (free) => `${bytes(free)} of ${bytes(health.disk_bytes)}`)],
          ["Size of the ledger", known(health.ledger_bytes, bytes)],
          ["Clock", health.clock_confirmed ? `${count(Math.abs(health.clock_difference_ms))} ms from the system's` : "not confirmed"],
        ]
      : []),
  ]);
  aged("now-title", night.takenAt);
  aged("sales-title", night.takenAt, night.takenAt - unitsAge);
  aged("health-title", night.takenAt);
  drawEvents(figures.events);
  followIncidents(figures.verdict);
  drawSales(sales);
  byId("no-sales").hidden = sales.length > 0;
  const more = figures.sales_total - sales.length;
  set(byId("more-sales").firstElementChild, count(more));
  byId("more-sales").hidden = more <= 0;
};

// What the installation was found to carry.
const carried = (peak) => (peak ? `of a measured ${count(peak.orders_per_s)}${peak.on && `, bench peak of ${peak.on}`}` : "");

// What the shop was not told yet.
const toldLate = (webhooks) => {
  const parts = webhooks.off.map((endpoint) => `${endpoint} is off`);
  if (webhooks.waiting_since_ms !== null) parts.push(`the oldest for ${duration(serverNow() - webhooks.waiting_since_ms)}`);
  if (webhooks.given_up > 0) parts.push(`${count(webhooks.given_up)} given up`);
  return parts.join(", ");
};

// What happened, and, for those who may read it, what operators did.
const EVENTS_SHOWN = 50;
const ACTIONS_EVERY_MS = 10000;
let actions = [];
let actionsAt = 0;
let actionsReadAt = Infinity;
let shownEvents = "";

const readActions = async () => {
  const asked = elapsed();
  actionsAt = asked;
  if (!["support", "operator", "admin"].includes(document.body.dataset.role)) return;
  try {
    const words = ({ who, what, sale, about, why }) => [`${who}: ${what.replaceAll("_", " ")}`, sale === null ? about : `no. ${sale} ${about}`, why && `(${why})`].filter((part) => part.trim()).join(" ");
    const found = (await get(`/api/v1/operators/log?limit=${EVENTS_SHOWN}`)).log;
    // A later answer may have come sooner.
    if (asked < actionsReadAt && actionsReadAt < Infinity) return;
    actions = found.map((action) => ({ at_ms: action.at_ms, says: words(action) }));
    actionsReadAt = asked;
  } catch {
    // The age says that the server can't be reached.
  }
};

const drawEvents = (events) => {
  aged("events-title", Math.min(night.takenAt, actionsReadAt));
  const newest = JSON.stringify(events[0] ?? null);
  if (byId("events").dataset.newest !== newest || elapsed() - actionsAt > ACTIONS_EVERY_MS) {
    byId("events").dataset.newest = newest;
    readActions();
  }
  const all = [...events, ...actions].sort((a, b) => b.at_ms - a.at_ms).slice(0, EVENTS_SHOWN);
  const wanted = JSON.stringify(all);
  if (wanted === shownEvents) return;
  shownEvents = wanted;
  byId("events").replaceChildren(...all.map(({ at_ms: at, says }) => lineAt(at, says)));
  byId("no-events").hidden = all.length > 0;
};

// One of a cluster's: what it does, or for how long it has said nothing.
const ofServer = (of) => {
  if (!of.counted) return `${of.server} silent for ${duration(of.silent_ms)}`;
  return `${of.server} ${of.ready ? `${rate(of.accepted_per_s)}/s` : "takes no orders"}`;
};

// Of a cluster, whose part of the sum is older than the rest.
const behind = ({ servers }) => servers.filter((of) => of.silent_ms >= STALE_MS).map((of) => `, ${of.server} ${duration(of.silent_ms + age())} old`).join("");

const tick = () => {
  if (stream && elapsed() - Math.max(connectedAt, heardAt) > SILENT_MS) connectAgain();
  if (night.figures === null) return;
  const old = age() > STALE_MS;
  if (!hasFailed) drawing(() => drawTimes(old));
  const isLive = stream !== null && age() < LIVE_MS;
  const node = byId("age");
  node.classList.toggle("old", old || hasFailed);
  // The figures' own time, which stands still with them.
  const [at, soOld] = [clockTime(night.figures.at_ms), duration(age())];
  if (hasFailed) {
    set(node, "this page failed to show figures: reload");
    verdict("unknown", "This page failed to show figures.", "Reload it. What is shown below may be of before; `doorbuster watch` shows the same.", "server-away");
    set(title, "UNKNOWN: this page failed");
    return;
  }
  set(node, (isLive ? `live: figures of ${at}, ${soOld} ago` : `figures ${soOld} old, of ${at}`) + behind(night.figures));
  if (old) {
    const why = refused || "The server hangs, or can't be reached from here.";
    verdict("unknown", `No figures since ${at}.`, `${why} What is shown below is out of date. It is asked again by itself.`, "server-away");
    set(title, "UNKNOWN: no figures");
  }
  keepFocus();
};

// What the passing of time changes.
const drawTimes = (old) => {
  const { level, says, do: toDo, runbook, action } = night.figures.verdict;
  for (const sale of night.figures.sales) {
    const node = byId(`when-${sale.id}`);
    if (node) set(node, when(sale));
  }
  showServers();
  showAges();
  sayAsked();
  // The last: nobody hears of it that it goes well, and that the page has failed, in turn.
  if (old) return;
  verdict(level, says, toDo, runbook, action);
  set(title, `${level.toUpperCase()}: ${says}`);
};

const when = (sale) => {
  const now = serverNow();
  if (!hasStarted(sale)) return `starts in ${duration(sale.starts_at_ms - now)}, at ${dayAndTime(sale.starts_at_ms)}${sale.state === "paused" ? ", if it is resumed by then" : ""}`;
  if (sale.ended_at_ms) return `ended at ${dayAndTime(sale.ended_at_ms)}, ${duration(sale.ends_at_ms - sale.ended_at_ms)} before its time`;
  if (sale.state === "ended") return `ended at ${dayAndTime(sale.ends_at_ms)}`;
  return `ends in ${duration(sale.ends_at_ms - now)}, at ${dayAndTime(sale.ends_at_ms)}`;
};

// The sales.

const worded = (code, per) => `${code.replaceAll("_", " ")} ${rate(per)}`;
const mostFirst = (byCode) => Object.entries(byCode).sort((a, b) => b[1] - a[1]);

const within = (seconds) => `within ${duration(Math.max(1, seconds) * 1000)}`;

// How holds ended: how many were paid, and how soon. A cluster counts since its servers' start.
const holding = ({ holds }) => {
  if (!holds) return "";
  const ended = holds.paid - holds.paid_late + holds.cancelled + holds.expired;
  if (ended === 0) return "";
  const parts = [`${holds.since_ms === null ? "" : `since ${dayAndTime(holds.since_ms)}, `}of ${count(ended)} holds that ended ${count(holds.paid - holds.paid_late)} were paid`];
  if (holds.paid > 0) parts.push(`half ${within(holds.paid_after_p50_s)}, nine of ten ${within(holds.paid_after_p90_s)}`);
  if (holds.expired > 0) parts.push(`${count(holds.expired)} expired`);
  if (holds.paid_late > 0) parts.push(`${count(holds.paid_late)} paid after that`);
  if (holds.cancelled > 0) parts.push(`${count(holds.cancelled)} cancelled`);
  return parts.join(" · ");
};

// What was not accepted in the last second, of a sale or an item, and how long answers took.
const beside = ({ rates, refused_by_code: refused, order_route: route }) => {
  const parts = [];
  const why = mostFirst(refused ?? {}).map(([code, per]) => worded(code, per)).join(", ");
  if (rates.refused > 0) parts.push(`${rate(rates.refused)} refused/s${why && ` (${why})`}`);
  if (rates.busy > 0) parts.push(`${rate(rates.busy)} busy/s`);
  if (rates.unknown > 0) parts.push(`${rate(rates.unknown)} unknown/s`);
  if (route) parts.push(`p50 ${milliseconds(route.p50_ms)} ms, p99 ${milliseconds(route.p99_ms)} ms`);
  return parts;
};
const doing = (sale) => (sale.rates ? [`${rate(sale.rates.accepted)} accepted/s`, ...beside(sale)].join(" · ") : "orders of this sale: not known here");

// Of each sale, until the others are asked for.
const ROWS_SHOWN = 8;
// By the node of a sale: what it was made of.
const shapes = new WeakMap();

const nodeOf = (sale) => {
  const shape = JSON.stringify([sale.title, sale.items.map((item) => [item.product, item.title, item.line !== null])]);
  const known = byId(`sale-${sale.id}`);
  if (known && shapes.get(known) === shape) return known;
  const made = newSale(sale);
  shapes.set(made, shape);
  return made;
};

const drawSales = (sales) => {
  const [shown, nodes] = [byId("sales").children, sales.map(nodeOf)];
  // One that only goes to another place stays what somebody may be about to press, and where the keyboard is.
  if (shown.length !== nodes.length || nodes.some((node, at) => node !== shown[at])) {
    notePlace();
    byId("sales").replaceChildren(...nodes);
  }
  for (const sale of sales) {
    const node = byId(`sale-${sale.id}`);
    node.dataset.state = sale.state;
    set(node.querySelector(".state"), STATES[sale.state]);
    set(`when-${sale.id}`, when(sale));
    set(`does-${sale.id}`, doing(sale));
    set(`holds-${sale.id}`, holding(sale));
    node.querySelector(".report").hidden = sale.state !== "ended" || !Number.isSafeInteger(sale.id);
    for (const button of node.querySelectorAll("[data-call], [data-item-call]")) {
      const { call, itemCall } = button.dataset;
      button.hidden = !isOffered(ACTIONS[call] ?? ITEM_ACTIONS[itemCall], sale);
    }
    const rows = node.querySelectorAll("tbody tr");
    sale.items.forEach((item, at) => {
      drawItem(rows[at], item);
      drawLine(sale, item);
    });
  }
};

// Many buttons have the same name: of what each is.
const described = (nodes, by) => {
  for (const node of nodes) node.setAttribute("aria-describedby", by.id);
  return nodes;
};

const newSale = (sale) => {
  const now = () => night.figures.sales.find((other) => other.id === sale.id) ?? sale;
  const latestOf = (item) => () => [now(), now().items.find((other) => other.product === item.product) ?? item];
  const heads = [["Item", ""], ["Units", "wide"], ["Left", "number"], ["Held", "number"], ["Sold", "number"], ["Of", "number wide"], ["Orders/s", "number"], ["Sold out", "number wide"], ["Change", "change"]];
  const row = (item) => {
    const choose = element("button", { id: `item-${sale.id}-${item.product}`, class: "quiet", "aria-pressed": "false" }, item.title);
    choose.addEventListener("click", () => chooseItem(sale, item));
    const share = element("div", { class: "share", "aria-hidden": "true" }, element("span", { class: "sold" }), element("span", { class: "held" }));
    const cells = heads.slice(2, -1).map(([head, of]) => element("td", { class: of, "data-head": head }));
    const [named, changed] = [element("td", {}, choose, element("small", { class: "does soft" })), element("td", { class: "change" }, ...described(itemButtons(latestOf(item)), choose))];
    return rowOf([named, element("td", { class: "wide" }, share), ...cells, changed], { "data-product": item.product });
  };
  const table = tableOf(`Items of ${sale.title}`, heads, sale.items.map(row));
  const title = element("h3", { id: `title-${sale.id}` }, `${sale.title} `, element("span", { class: "soft" }, `no. ${sale.id}`));
  const line = element("p", { class: "row" }, element("span", { class: "state" }), element("span", { id: `when-${sale.id}` }), element("span", { id: `does-${sale.id}`, class: "soft" }), element("span", { id: `holds-${sale.id}`, class: "soft" }));
  const hidden = sale.items_total - sale.items.length;
  const more = hidden > 0 ? [element("p", { class: "soft" }, `${count(hidden)} of its ${count(sale.items_total)} items are not listed here.`)] : [];
  const rows = [...table.tBodies[0].rows].slice(ROWS_SHOWN);
  if (rows.length > 1) {
    for (const row of rows) row.hidden = true;
    const show = element("button", { class: "quiet" }, `Show ${rows.length} more items`);
    show.addEventListener("click", () => {
      for (const row of rows) row.hidden = false;
      rows[0].querySelector("button").focus();
      show.remove();
    });
    more.unshift(element("p", {}, show));
  }
  return element("article", { class: "sale", id: `sale-${sale.id}`, "aria-labelledby": title.id }, title, line, table, ...more, ...newLines(sale, latestOf), element("p", { class: "row" }, ...described([...saleButtons(() => [now()]), element("a", { class: "report", href: `/console/sales/${sale.id}/report` }, "Report")], title)));
};

const drawItem = (row, item) => {
  const [, , left, held, sold, total, orders, soldOut] = row.children;
  const [soldShare, heldShare] = row.querySelector(".share").children;
  const percent = (units) => `${item.total > 0 ? (100 * units) / item.total : 0}%`;
  soldShare.style.width = percent(item.sold);
  heldShare.style.width = percent(item.held);
  set(row.querySelector(".does"), item.rates ? beside(item).join(" · ") : "");
  set(left, count(leftOf(item)));
  set(held, count(item.held));
  set(sold, count(item.sold));
  set(total, count(item.total));
  set(orders, item.rates ? rate(item.rates.accepted) : "–");
  set(soldOut, item.sold_out_at_ms === null ? "" : clockTime(item.sold_out_at_ms));
};

signInSays(sessionStorage.getItem(SIGNED_OUT) ?? "");
sessionStorage.removeItem(SIGNED_OUT);
set("zone", Intl.DateTimeFormat().resolvedOptions().timeZone);
setInterval(tick, 250);
enter();
