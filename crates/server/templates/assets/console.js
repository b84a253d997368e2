// The console: the server's figures as they come, and what an operator does about them.
// Nothing here judges: whether it goes well, the server says. What is older than STALE_MS is said to be old.

const STALE_MS = 3000;
const RETRY_MS = [1000, 2000, 5000, 10000];
const SPANS = [["5 min", 300], ["1 h", 3600], ["24 h", 86400], ["3 days", 259200]];
const POINTS = 1200;
// What is over a span is asked for again no oftener than this.
const REREAD_MS = 15000;

const byId = (id) => document.getElementById(id);
const board = byId("board");
const signIn = byId("sign-in");

let figures = null;
let receivedAt = 0;
let stream = null;
let failures = 0;
let span = SPANS[0][1];
let chosen = null;

const set = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const element = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

// Figures for people.
const whole = new Intl.NumberFormat("en");
const count = (number) => whole.format(Math.round(number));
const rate = (number) => (number > 0 && number < 10 ? number.toFixed(1) : count(number));
const milliseconds = (ms) => (ms < 10 ? ms.toFixed(1) : count(ms));
const bytes = (number) => {
  let value = number;
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (value < 1000) return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} TB`;
};
const known = (value, say) => (value === null ? "not known here" : say(value));
const clockTime = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const dayAndTime = (ms) => new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const duration = (ms) => {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
};

// The server's clock, as far as its latest figures say.
const serverNow = () => figures.at_ms + (performance.now() - receivedAt);

// The connection.

const connect = () => {
  stream?.close();
  stream = new EventSource("/api/v1/figures/events");
  stream.onmessage = (event) => {
    failures = 0;
    receive(JSON.parse(event.data));
  };
  stream.onerror = () => {
    stream.close();
    retry();
  };
};

// The server ends each stream after a while, so that a session that is over ends with it.
const retry = async () => {
  const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)];
  failures += 1;
  try {
    const answer = await fetch("/api/v1/console/session", { cache: "no-store" });
    if (answer.ok && !(await answer.json()).signed_in) return askToSignIn(figures ? "You were signed out." : "");
    if (answer.ok && failures === 1) return connect();
  } catch {
    // It can't be reached: the age says so.
  }
  setTimeout(retry, wait);
};

const reason = async (answer) => {
  try {
    return (await answer.json()).detail;
  } catch {
    return `The server answered ${answer.status}.`;
  }
};

const askToSignIn = (why) => {
  figures = null;
  failures = 0;
  board.hidden = true;
  byId("sign-out").hidden = true;
  signIn.hidden = false;
  set(byId("age"), "not signed in");
  set(byId("sign-in-problem"), why);
  byId("token").focus();
};

signIn.addEventListener("submit", async (event) => {
  event.preventDefault();
  const token = byId("token").value.trim();
  set(byId("sign-in-problem"), "");
  try {
    const headers = { Authorization: `Bearer ${token}` };
    const answer = await fetch("/api/v1/console/session", { method: "POST", headers });
    if (!answer.ok) return set(byId("sign-in-problem"), await reason(answer));
    byId("token").value = "";
    failures = 0;
    connect();
  } catch {
    set(byId("sign-in-problem"), "The server can't be reached. Try again.");
  }
});

byId("sign-out").addEventListener("click", async () => {
  try {
    await fetch("/api/v1/console/session/end", { method: "POST" });
    stream.close();
    askToSignIn("");
  } catch {
    say("The server can't be reached: you are still signed in.");
  }
});

// The figures.

const receive = (latest) => {
  const first = figures === null;
  figures = latest;
  receivedAt = performance.now();
  signIn.hidden = true;
  board.hidden = false;
  byId("sign-out").hidden = false;
  if (first) start();
  append(latest);
  draw();
};

const verdict = (level, says, toDo) => {
  byId("verdict").dataset.level = level;
  set(byId("level"), level);
  set(byId("says"), says);
  set(byId("do"), toDo);
};

const draw = () => {
  const { health, rates, order_route: route, sales } = figures;
  verdict(figures.verdict.level, figures.verdict.says, figures.verdict.do);
  document.title = `${figures.verdict.level.toUpperCase()}: ${figures.verdict.says}`;
  set(byId("server"), figures.server ?? "");
  const open = sales.filter((sale) => sale.state === "live" || sale.state === "paused");
  const sum = (key) => open.reduce((total, sale) => total + sale.units[key], 0);
  const reasons = Object.entries(figures.refused_by_code).sort((a, b) => b[1] - a[1]);
  tiles("tiles", [
    ["Accepted per second", rate(rates.accepted), `${count(figures.totals.accepted)} since the start`],
    ["Refused per second", rate(rates.refused), reasons.slice(0, 2).map(([code, per]) => `${code.replaceAll("_", " ")} ${rate(per)}`).join(", ")],
    ["Busy per second", rate(rates.busy), "asked to come again"],
    ["Unknown per second", rate(rates.unknown), `${count(figures.totals.unknown)} since the start`],
    ["Order, p50", route ? `${milliseconds(route.p50_ms)} ms` : "–", "time to answer"],
    ["Order, p99", route ? `${milliseconds(route.p99_ms)} ms` : "–", "time to answer"],
    ["Left", count(sum("available")), "units of what sells"],
    ["Held", count(sum("held")), "not paid yet"],
    ["Sold", count(sum("sold")), "paid"],
  ]);
  const limit = (number) => (number > 0 ? ` of ${count(number)}` : "");
  tiles("health", [
    ["Takes orders", health.ready ? "yes" : `no: ${health.reasons.join(" ")}`],
    ["Orders in flight", `${count(health.in_flight)}${limit(health.in_flight_max)}`],
    ["Admitted per second", health.orders_per_s_max > 0 ? `at most ${count(health.orders_per_s_max)}` : "all"],
    ["Commit, p50 and p99", health.commit ? `${milliseconds(health.commit.p50_ms)} and ${milliseconds(health.commit.p99_ms)} ms` : "none now"],
    ["Refunds due", known(health.refunds_due, count)],
    ["Processors busy", known(health.processors_busy, (part) => `${Math.round(part * 100)} %`)],
    ["Memory", known(health.memory_bytes, bytes)],
    ["Disk free", known(health.disk_free_bytes, (free) => `${bytes(free)} of ${bytes(health.disk_bytes)}`)],
    ["Ledger", known(health.ledger_bytes, bytes)],
    ["Connections", count(health.connections)],
    ["Requests per second", rate(rates.requests)],
    ["Clock", health.clock_confirmed ? `${count(Math.abs(health.clock_difference_ms))} ms from the system's` : "not confirmed"],
  ]);
  drawSales(sales);
  byId("no-sales").hidden = sales.length > 0;
};

// A list of names and values whose nodes stay, so that nobody's place in it is lost.
const tiles = (id, rows) => {
  const list = byId(id);
  rows.forEach(([name, value, more], at) => {
    let node = list.children[at];
    if (!node) {
      node = element("div", {}, element("dt"), element("dd", {}, element("span"), element("small")));
      list.append(node);
    }
    const [text, small] = node.lastChild.children;
    set(node.firstChild, name);
    set(text, value);
    set(small, more ?? "");
  });
  while (list.children.length > rows.length) list.lastChild.remove();
};

const tick = () => {
  if (figures === null) return;
  const age = performance.now() - receivedAt;
  const old = age > STALE_MS;
  const node = byId("age");
  node.classList.toggle("old", old);
  set(node, old ? `figures ${duration(age)} old` : `live, ${clockTime(serverNow())}`);
  if (old) {
    verdict("unknown", `No figures for ${duration(age)}.`, "The server can't be reached from here: what is shown below is of before. It is asked again by itself.");
    document.title = "UNKNOWN: no figures";
  }
  for (const sale of figures.sales) {
    const node = byId(`when-${sale.id}`);
    if (node) set(node, when(sale));
  }
};

const when = (sale) => {
  const now = serverNow();
  if (sale.state === "not_started") return `starts in ${duration(sale.starts_at_ms - now)}, at ${dayAndTime(sale.starts_at_ms)}`;
  if (sale.state === "ended") return `ended at ${dayAndTime(sale.ends_at_ms)}`;
  return `ends in ${duration(sale.ends_at_ms - now)}, at ${dayAndTime(sale.ends_at_ms)}`;
};

// The sales.

// Of each sale, until the others are asked for.
const ROWS_SHOWN = 8;
const STATES = { not_started: "planned", live: "live", paused: "paused", ended: "ended" };
let shape = "";

const drawSales = (sales) => {
  const wanted = JSON.stringify(sales.map((sale) => [sale.id, sale.title, sale.items.map((item) => [item.product, item.title])]));
  if (wanted !== shape) {
    shape = wanted;
    byId("sales").replaceChildren(...sales.map(newSale));
  }
  for (const sale of sales) {
    const node = byId(`sale-${sale.id}`);
    node.dataset.state = sale.state;
    set(node.querySelector(".state"), STATES[sale.state]);
    set(byId(`when-${sale.id}`), when(sale));
    for (const button of node.querySelectorAll("button[data-call]")) {
      button.hidden = !ACTIONS[button.dataset.call].states.includes(sale.state);
    }
    sale.items.forEach((item, at) => drawItem(node.querySelectorAll("tbody tr")[at], item));
  }
};

const newSale = (sale) => {
  const heads = [["Item", ""], ["Units", "wide"], ["Left", "number"], ["Held", "number"], ["Sold", "number"], ["Of", "number wide"], ["Sold out", "wide"]];
  const row = (item) => {
    const choose = element("button", { class: "quiet", "aria-pressed": "false" }, item.title);
    choose.addEventListener("click", () => chooseItem(sale, item));
    const share = element("div", { class: "share", "aria-hidden": "true" }, element("span", { class: "sold" }), element("span", { class: "held" }));
    const cells = heads.slice(2).map(([head, of]) => element("td", { class: of, role: "cell", "data-head": head }));
    const line = element(
      "tr",
      { "data-product": item.product, role: "row" },
      element("td", { role: "cell" }, choose),
      element("td", { class: "wide", role: "cell" }, share),
      ...cells,
    );
    return line;
  };
  const buttons = Object.entries(ACTIONS).map(([call, action]) => {
    const button = element("button", { "data-call": call, class: action.grave ? "grave" : "quiet" }, action.name);
    button.addEventListener("click", () => ask(call, figures.sales.find((other) => other.id === sale.id)));
    return button;
  });
  // The roles stay when a narrow page makes other boxes of the rows.
  const head = heads.map(([text, of]) => element("th", { scope: "col", class: of, role: "columnheader" }, text));
  const table = element(
    "table",
    { class: "items", role: "table", "aria-label": `Items of ${sale.title}` },
    element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, ...head)),
    element("tbody", { role: "rowgroup" }, ...sale.items.map(row)),
  );
  const title = element("h3", {}, `${sale.title} `, element("span", { class: "soft" }, `no. ${sale.id}`));
  const line = element("p", { class: "row" }, element("span", { class: "state" }), element("span", { id: `when-${sale.id}` }));
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
  return element("article", { class: "sale", id: `sale-${sale.id}` }, title, line, table, ...more, element("p", { class: "row" }, ...buttons));
};

const drawItem = (row, item) => {
  const [, , left, held, sold, total, soldOut] = row.children;
  const [soldShare, heldShare] = row.querySelector(".share").children;
  const percent = (units) => `${item.total > 0 ? (100 * units) / item.total : 0}%`;
  soldShare.style.width = percent(item.sold);
  heldShare.style.width = percent(item.held);
  set(left, count(item.available));
  set(held, count(item.held));
  set(sold, count(item.sold));
  set(total, count(item.total));
  set(soldOut, item.sold_out_at_ms === null ? "" : clockTime(item.sold_out_at_ms));
};

// What an operator does. Each says what it will do before it is done.
const ACTIONS = {
  pause: {
    name: "Pause",
    states: ["live", "not_started"],
    says: (sale) => `Nobody can order in “${sale.title}” until it is resumed. Holds can still be paid, and the end stays ${dayAndTime(sale.ends_at_ms)}.`,
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
    says: (sale) => `“${sale.title}” ends for good, ${duration(sale.ends_at_ms - serverNow())} before its time, with ${count(sale.units.available)} units left. Its ${count(sale.units.held)} held units can still be paid. This can't be undone.`,
    done: "Ended.",
  },
};

const dialog = byId("ask");
let asked = null;

const ask = (call, sale) => {
  asked = { call, sale };
  const action = ACTIONS[call];
  set(byId("ask-title"), `${action.name}: ${sale.title}`);
  set(byId("ask-says"), action.says(sale));
  set(byId("ask-do"), action.name);
  set(byId("ask-problem"), "");
  byId("ask-do").className = action.grave ? "grave" : "";
  byId("ask-do").disabled = false;
  byId("ask-typed").hidden = !action.grave;
  byId("typed").value = "";
  dialog.showModal();
};

byId("ask-form").addEventListener("submit", async (event) => {
  if (event.submitter?.value === "no") return;
  event.preventDefault();
  const { call, sale } = asked;
  const action = ACTIONS[call];
  if (action.grave && byId("typed").value.trim() !== sale.title) {
    set(byId("ask-problem"), `That is not the title: “${sale.title}”.`);
    return byId("typed").focus();
  }
  byId("ask-do").disabled = true;
  try {
    const answer = await fetch(`/api/v1/sales/${sale.id}/${call}`, { method: "POST" });
    if (!answer.ok) return set(byId("ask-problem"), await reason(answer));
    dialog.close();
    say(action.done);
  } catch {
    set(byId("ask-problem"), "No answer came: it may be done or not. The figures show it; doing it again does no harm.");
  } finally {
    byId("ask-do").disabled = false;
  }
});

let toast = 0;
const say = (text) => {
  set(byId("done"), text);
  clearTimeout(toast);
  toast = setTimeout(() => set(byId("done"), ""), 5000);
};

// The charts.

const charts = {
  rates: { columns: ["accepted", "refused", "busy", "unknown"], data: [[], [], [], [], []], plot: null },
  times: { columns: ["order_p50_ms", "order_p99_ms"], data: [[], [], []], plot: null },
  units: { columns: ["sold", "held", "available"], data: [[], [], [], []], plot: null },
};
let stepMs = 1000;
let readAt = 0;
let reading = 0;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const line = (label, name, dash) => ({ label, stroke: colour(name), width: 2, dash, points: { show: false }, value: (_, v) => (v === null ? "–" : rate(v)) });

const seriesOf = {
  rates: () => [line("accepted", "--sold"), line("refused", "--refused", [6, 4]), line("busy", "--held", [2, 3]), line("unknown", "--red", [10, 3])],
  times: () => [line("p50", "--accent"), line("p99", "--red", [6, 4])],
  // Drawn over one another, the largest first: what is seen of each is its own share.
  units: () => [
    { ...line("left", "--left"), fill: colour("--left"), value: (u, _, __, at) => unitsAt(u, 2, at) },
    { ...line("held", "--held"), fill: colour("--held"), value: (u, _, __, at) => unitsAt(u, 1, at) },
    { ...line("sold", "--sold"), fill: colour("--sold"), value: (u, _, __, at) => unitsAt(u, 0, at) },
  ],
};
const unitsAt = (_, column, at) => {
  const value = at === null || at === undefined ? null : charts.units.data[1 + column][at];
  return value === null || value === undefined ? "–" : count(value);
};

const shown = (kind) => {
  const [times, ...columns] = charts[kind].data;
  if (kind !== "units") return [times, ...columns];
  const [sold, held, available] = columns;
  const plus = (of) => sold.map((units, at) => (units === null ? null : of(at)));
  return [times, plus((at) => sold[at] + held[at] + available[at]), plus((at) => sold[at] + held[at]), sold];
};

// The moment of sell-out, as a line across the chart.
const soldOutLine = (plot) => {
  const at = item()?.sold_out_at_ms;
  if (!at) return;
  const x = plot.valToPos(at / 1000, "x", true);
  const { left: from, width, top, height } = plot.bbox;
  if (x < from || x > from + width) return;
  plot.ctx.save();
  plot.ctx.strokeStyle = colour("--ink");
  plot.ctx.setLineDash([4, 4]);
  plot.ctx.beginPath();
  plot.ctx.moveTo(x, top);
  plot.ctx.lineTo(x, top + height);
  plot.ctx.stroke();
  plot.ctx.restore();
};

// Orders and units are whole.
const STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));

const tickTime = (seconds) => {
  const at = new Date(seconds * 1000);
  if (span <= 300) return clockTime(at);
  const day = span > 86400 ? `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ` : "";
  return `${day}${at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" })}`;
};

const makeChart = (kind) => {
  const node = byId(`${kind}-chart`);
  charts[kind].plot?.destroy();
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  charts[kind].plot = new uPlot(
    {
      ...size(node),
      series: [{ value: (_, seconds) => (seconds === null ? "–" : clockTime(seconds * 1000)) }, ...seriesOf[kind]()],
      axes: [
        { ...axis, space: 90, values: (_, ticks) => ticks.map(tickTime) },
        { ...axis, size: 70, incrs: kind === "times" ? undefined : STEPS, values: (_, ticks) => ticks.map((tick) => whole.format(tick)) },
      ],
      scales: { x: { range: () => [(serverNow() - span * 1000) / 1000, serverNow() / 1000] }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.05] } },
      hooks: kind === "units" ? { draw: [soldOutLine] } : {},
    },
    shown(kind),
    node,
  );
};

const size = (node) => ({ width: Math.max(200, node.clientWidth), height: Math.max(120, node.clientHeight - 34) });

const item = () => {
  const sale = chosen && figures.sales.find((other) => other.id === chosen.sale);
  return sale?.items.find((other) => other.product === chosen.product);
};

const chooseItem = (sale, of) => {
  chosen = { sale: sale.id, product: of.product };
  set(byId("units-of"), of.title);
  for (const button of document.querySelectorAll("#sales td button")) {
    const row = button.closest("tr");
    const own = button.closest("article").id === `sale-${sale.id}` && row.dataset.product === String(of.product);
    button.setAttribute("aria-pressed", String(own));
  }
  read();
};

// What was before this page was opened, and what a long span leaves out.
const read = async () => {
  const turn = ++reading;
  readAt = performance.now();
  const now = Math.floor(serverNow());
  const query = new URLSearchParams({ from_ms: now - span * 1000, to_ms: now, points: POINTS });
  if (chosen) {
    query.set("sale", chosen.sale);
    query.set("product", chosen.product);
  }
  byId("csv").href = `/api/v1/figures/history.csv?${query}`;
  try {
    const answer = await fetch(`/api/v1/figures/history?${query}`, { cache: "no-store" });
    if (!answer.ok || turn !== reading) return;
    const history = await answer.json();
    stepMs = history.step_ms;
    const place = Object.fromEntries(history.columns.map((name, at) => [name, at]));
    for (const kind of Object.values(charts)) {
      kind.data = [history.rows.map((row) => row[place.at_ms] / 1000), ...kind.columns.map((name) => history.rows.map((row) => row[place[name]] ?? null))];
    }
    redraw();
  } catch {
    // The age says that the server can't be reached.
  }
};

const append = (latest) => {
  if (stepMs > 1000) {
    if (performance.now() - readAt > Math.max(REREAD_MS, stepMs)) read();
    return;
  }
  const { rates, order_route: route } = latest;
  const of = item();
  const values = {
    rates: [rates.accepted, rates.refused, rates.busy, rates.unknown],
    times: [route?.p50_ms ?? null, route?.p99_ms ?? null],
    units: [of?.sold ?? null, of?.held ?? null, of?.available ?? null],
  };
  const from = latest.at_ms / 1000 - span;
  for (const [kind, chart] of Object.entries(charts)) {
    const [times] = chart.data;
    if (times.length > 0 && latest.at_ms / 1000 <= times[times.length - 1]) continue;
    [latest.at_ms / 1000, ...values[kind]].forEach((value, at) => chart.data[at].push(value));
    const over = times.findIndex((time) => time >= from);
    if (over > 0) chart.data.forEach((column) => column.splice(0, over));
  }
  redraw();
};

const redraw = () => {
  if (document.hidden) return;
  for (const [kind, chart] of Object.entries(charts)) chart.plot?.setData(shown(kind));
};

const start = () => {
  const first = figures.sales.find((sale) => sale.items.length > 0);
  if (first && !chosen) {
    chosen = { sale: first.id, product: first.items[0].product };
    set(byId("units-of"), first.items[0].title);
  }
  Object.keys(charts).forEach(makeChart);
  read();
};

for (const [name, seconds] of SPANS) {
  const button = element("button", { class: "quiet", "aria-pressed": String(seconds === span) }, name);
  button.addEventListener("click", () => {
    span = seconds;
    for (const other of byId("spans").children) other.setAttribute("aria-pressed", String(other === button));
    read();
  });
  byId("spans").append(button);
}

const remake = () => {
  if (figures !== null) Object.keys(charts).forEach(makeChart);
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", remake);
let resized = 0;
addEventListener("resize", () => {
  cancelAnimationFrame(resized);
  resized = requestAnimationFrame(() => {
    for (const [kind, chart] of Object.entries(charts)) chart.plot?.setSize(size(byId(`${kind}-chart`)));
  });
});
document.addEventListener("visibilitychange", redraw);
setInterval(tick, 250);
retry();
