// The console's charts: what the server has kept of the past, and each second as it comes. Drawn by uPlot.
import { aged, byId, call, clockTime, count, elapsed, element, hasStarted, leftOf, night, rate, serverNow, set, short } from "./console-words.js";

const SPANS = [["5 min", 300], ["1 h", 3600], ["24 h", 86400], ["3 days", 259200]];
const POINTS = 1200;
// What is over a long span is asked for again no oftener than this.
const REREAD_MS = 15000;
// What came while this page heard nothing, no oftener than this.
const MISSED_MS = 5000;
// A time without figures that is longer breaks the lines: a second may slip into its neighbour, two are missing.
const GAP_MS_MIN = 2500;
// After an answer that has no history, the last for each after it.
const RETRY_MS = [1000, 2000, 5000, 10000];

let span = SPANS[0][1];
let chosen = null;
// By whoever looks.
let isPressed = false;

const charts = {
  rates: { columns: ["accepted", "refused", "busy", "unknown"], data: [[], [], [], [], []], plot: null },
  times: { columns: ["order_p50_ms", "order_p99_ms"], data: [[], [], []], plot: null },
  units: { columns: ["sold", "held", "left"], data: [[], [], [], []], plot: null },
};
let stepMs = 1000;
// When times began in which not every server was heard: their sums are too small.
let partial = [];
let readAt = 0;
// The last points came as they were taken; a history that ends early is not asked for again and again.
let isLive = false;
let reading = 0;
let failures = 0;
let retrying = 0;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A value between two that are not known is in no line: a sale may be over within a second.
const alone = ({ data }, at) => {
  const isKnown = (place) => (data[at][place] ?? null) !== null;
  const found = [...data[0].keys()].filter((place) => isKnown(place) && !isKnown(place - 1) && !isKnown(place + 1));
  return found.length > 0 ? found : null;
};

const line = (label, name, dash) => ({ label, stroke: colour(name), width: 2, dash, points: { show: false, size: 6, fill: colour(name), filter: alone }, value: (_, v) => (v === null ? "–" : rate(v)) });

const seriesOf = {
  rates: () => [line("accepted", "--sold"), line("refused", "--refused", [6, 4]), line("busy", "--held", [2, 3]), line("unknown", "--red", [10, 3])],
  times: () => [line("p50", "--accent"), line("p99", "--red", [6, 4])],
  // Drawn over one another, the largest first: what is seen of each is its own share. Lines in the ground's colour part them: held and
  // left alone are too much alike.
  units: () => ["left", "held", "sold"].map((name, at) => ({ ...line(name, `--${name}`), stroke: colour("--card"), fill: colour(`--${name}`), value: (_, __, ___, of) => unitsAt(2 - at, of) })),
};
const unitsAt = (column, at) => {
  const value = at === null || at === undefined ? null : charts.units.data[1 + column][at];
  return value === null || value === undefined ? "–" : count(value);
};

const shown = (kind) => {
  const [times, ...columns] = charts[kind].data;
  if (kind !== "units") return [times, ...columns];
  const [sold, held, left] = columns;
  const plus = (of) => sold.map((units, at) => (units === null ? null : of(at)));
  return [times, plus((at) => sold[at] + held[at] + left[at]), plus((at) => sold[at] + held[at]), sold];
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

// Behind the lines.
const shade = (plot) => {
  const { left: from, width, top, height } = plot.bbox;
  const within = (time) => Math.round(Math.min(Math.max(plot.valToPos(time, "x", true), from), from + width));
  plot.ctx.save();
  plot.ctx.fillStyle = colour("--amber-ground");
  // A second may be less than a pixel.
  for (const time of partial) plot.ctx.fillRect(within(time), top, Math.max(2, within(time + stepMs / 1000) - within(time)), height);
  plot.ctx.restore();
};

// Orders and units are whole.
const STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));

// Between two labels, in seconds.
const TIMES = [1, 5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

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
        { ...axis, space: span <= 300 ? 64 : 90, incrs: TIMES, values: (_, ticks) => ticks.map(tickTime) },
        { ...axis, size: 60, incrs: kind === "times" ? undefined : STEPS, values: (_, ticks) => ticks.map((tick) => short.format(tick)) },
      ],
      scales: { x: { range: () => [(serverNow() - span * 1000) / 1000, serverNow() / 1000] }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.05] } },
      // Units are the ledger's, whoever was heard.
      hooks: kind === "units" ? { draw: [soldOutLine] } : { drawClear: [shade] },
    },
    shown(kind),
    node,
  );
  label(kind);
};

const size = (node) => ({ width: Math.max(200, node.clientWidth), height: innerWidth < 640 ? 160 : 210 });

const saleOf = () => chosen && night.figures.sales.find((other) => other.id === chosen.sale);
const item = () => {
  const sale = saleOf();
  return sale?.items.find((other) => other.product === chosen.product);
};

export const chooseItem = (sale, of) => {
  isPressed = true;
  show(sale, of);
};

const show = (sale, of) => {
  chosen = { sale: sale.id, product: of.product };
  // Until its own are read, those of the item before are not taken for them.
  for (const units of charts.units.data.slice(1)) units.fill(null);
  set("units-of", of.title);
  mark();
  read();
};

// A sale that has changed is made anew.
const mark = () => {
  for (const button of document.querySelectorAll("#sales [aria-pressed]")) button.setAttribute("aria-pressed", String(button.id === `item-${chosen?.sale}-${chosen?.product}`));
};

// The time and the item that are asked for now.
const askedFor = () => {
  const now = Math.floor(serverNow());
  const query = new URLSearchParams({ from_ms: now - span * 1000, to_ms: now, points: POINTS });
  if (chosen) {
    query.set("sale", chosen.sale);
    query.set("product", chosen.product);
  }
  return query;
};

byId("csv").addEventListener("click", (event) => (event.target.href = `/api/v1/figures/history.csv?${askedFor()}`));

// What was before this page was opened, and what a long span leaves out.
const read = async () => {
  const turn = ++reading;
  clearTimeout(retrying);
  readAt = elapsed();
  const answer = await call(`/api/v1/figures/history?${askedFor()}`).catch(() => null);
  const history = answer?.ok ? await answer.json().catch(() => null) : null;
  if (turn !== reading) return;
  if (!history) {
    set("history-says", answer?.status === 503 ? "History busy, asking again." : "No history came, asking again.");
    retrying = setTimeout(read, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]);
    failures += 1;
    return;
  }
  failures = 0;
  stepMs = history.step_ms;
  isLive = false;
  const place = Object.fromEntries(history.columns.map((name, at) => [name, at]));
  const valueOf = (row, name) => (name === "left" && typeof row[place.available] === "number" ? leftOf({ available: row[place.available], turns: row[place.turns] }) : row[place[name]] ?? null);
  for (const kind of Object.values(charts)) {
    kind.data = [[], ...kind.columns.map(() => [])];
    for (const row of history.rows) append(kind, row[place.at_ms] / 1000, kind.columns.map((name) => valueOf(row, name)));
  }
  partial = history.rows.filter((row) => row[place.servers_heard] < row[place.servers_known]).map((row) => row[place.at_ms] / 1000);
  aged("over-time", readAt);
  redraw();
  sayPartial();
};

const sayPartial = () => set("history-says", partial.length > 0 ? "Shaded: not every server was heard, and what the others did then is missing." : "");

const isGap = (from, to) => (to - from) * 1000 > Math.max(GAP_MS_MIN, 1.5 * stepMs);

// Nobody knows what was in a gap: a point without values breaks the lines there.
const append = ({ data }, time, values) => {
  const last = data[0][data[0].length - 1];
  if (isGap(last, time)) [last + stepMs / 1000, ...values.map(() => null)].forEach((value, at) => data[at].push(value));
  [time, ...values].forEach((value, at) => data[at].push(value));
};

const STEP_S_MIN = 0.9;

export const appendToCharts = (latest) => {
  follow();
  if (stepMs > 1000) {
    if (failures === 0 && elapsed() - readAt > Math.max(REREAD_MS, stepMs)) read();
    return;
  }
  const { rates, order_route: route } = latest;
  const of = item();
  const values = {
    rates: [rates.accepted, rates.refused, rates.busy, rates.unknown],
    times: [route?.p50_ms ?? null, route?.p99_ms ?? null],
    units: of ? [of.sold, of.held, leftOf(of)] : [null, null, null],
  };
  const isWhole = latest.servers.every((server) => server.counted);
  const from = latest.at_ms / 1000 - span;
  const { data: [known] } = charts.rates;
  if (isLive && failures === 0 && isGap(known[known.length - 1], latest.at_ms / 1000)) {
    // What only this page has missed, the server knows.
    clearTimeout(retrying);
    retrying = setTimeout(read, Math.max(0, readAt + MISSED_MS - elapsed()));
  }
  isLive = true;
  for (const [kind, chart] of Object.entries(charts)) {
    const [times] = chart.data;
    // In a cluster they come whenever a server has said something.
    if (times.length > 0 && latest.at_ms / 1000 < times[times.length - 1] + STEP_S_MIN) continue;
    append(chart, latest.at_ms / 1000, values[kind]);
    if (kind === "rates" && !isWhole) partial.push(latest.at_ms / 1000);
    const over = times.findIndex((time) => time >= from);
    if (over > 0) chart.data.forEach((column) => column.splice(0, over));
  }
  partial = partial.filter((time) => time >= from);
  aged("over-time", night.takenAt);
  redraw();
  if (failures === 0) sayPartial();
};

const redraw = () => {
  if (document.hidden) return;
  for (const [kind, { plot }] of Object.entries(charts)) {
    if (!plot) continue;
    plot.setData(shown(kind));
    label(kind);
  }
};

// For whoever does not see them, or uses a keyboard.
const captionOf = (kind) => byId(`${kind}-chart`).previousElementSibling.textContent;
const wordsAt = (kind, at) => {
  const { plot, data } = charts[kind];
  const values = plot.series.slice(1).map((of, place) => `${of.label} ${of.value(plot, data[1 + place][at], 1 + place, at)}`);
  return `${clockTime(data[0][at] * 1000)}: ${values.join(", ")}`;
};

const label = (kind) => {
  const { plot, data: [times] } = charts[kind];
  const latest = times.length > 0 ? `. The latest: ${wordsAt(kind, times.length - 1)}` : "";
  byId(`${kind}-chart`).setAttribute("aria-label", `${captionOf(kind)}; arrow keys read its values`);
  plot.ctx.canvas.setAttribute("role", "img");
  plot.ctx.canvas.setAttribute("aria-label", captionOf(kind) + latest);
};

// The time that was read last, by whoever reads by keys: the axis goes on meanwhile.
const shownAt = {};
const KEYS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60, Home: -Infinity, End: Infinity };
for (const kind of Object.keys(charts)) {
  const node = byId(`${kind}-chart`);
  node.setAttribute("role", "group");
  node.tabIndex = 0;
  node.addEventListener("keydown", (event) => {
    const { plot, data: [times] } = charts[kind];
    if (!(event.key in KEYS) || event.altKey || event.ctrlKey || event.metaKey || times.length === 0) return;
    event.preventDefault();
    const last = times.length - 1;
    const from = kind in shownAt ? times.findLastIndex((time) => time <= shownAt[kind]) : Infinity;
    const at = Math.max(0, Math.min(last, from + KEYS[event.key] || 0));
    shownAt[kind] = times[at];
    plot.setCursor({ left: Math.max(0, plot.valToPos(times[at], "x")), top: 0 });
    set("chart-says", wordsAt(kind, at));
  });
  node.addEventListener("blur", () => {
    delete shownAt[kind];
    charts[kind].plot.setCursor({ left: -10, top: -10 });
  });
}

// Until an item is pressed, the one that has sold most is shown, of what sells; then of what will, then of what did.
const STATES = ["live", "paused", "not_started", "ended"];
const rankOf = (sale) => STATES.indexOf(hasStarted(sale) ? sale.state : "not_started");
const follow = () => {
  mark();
  if (isPressed) return;
  const items = night.figures.sales.flatMap((sale) => sale.items.map((of) => ({ sale, of, rank: rankOf(sale) })));
  const [first] = items.sort((a, b) => a.rank - b.rank || b.of.held + b.of.sold - a.of.held - a.of.sold);
  if (first && (!item() || first.rank < rankOf(saleOf()))) show(first.sale, first.of);
};

export const startCharts = () => {
  Object.keys(charts).forEach(makeChart);
  const asked = reading;
  follow();
  if (reading === asked) read();
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
  if (night.figures !== null) Object.keys(charts).forEach(makeChart);
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
