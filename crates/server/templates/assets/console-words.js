// What the console's scripts share: how its figures are written, and the figures themselves.

export const byId = (id) => document.getElementById(id);
/** `of`: a node, or its id. */
export const set = (of, text) => {
  const node = of.localName ? of : byId(of);
  if (node.textContent !== text) node.textContent = text;
};

export const element = (name, attributes = {}, ...children) => {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

// Figures for people.
const whole = new Intl.NumberFormat("en");
export const short = new Intl.NumberFormat("en", { notation: "compact" });
export const count = (number) => whole.format(Math.round(number));
export const unitsOf = (number, kind = "") => `${count(number)} ${kind}${number === 1 ? "unit" : "units"}`;
export const people = (number, does = "") => `${count(number)} ${number === 1 ? "person" : "people"}${does && ` ${does}${number === 1 ? "s" : ""}`}`;
// As events and the terminal write it. What is typed may be no currency yet.
export const money = (minor, currency) => {
  try {
    const { maximumFractionDigits: digits } = new Intl.NumberFormat("en", { style: "currency", currency }).resolvedOptions();
    return `${(minor / 10 ** digits).toFixed(digits)} ${currency}`;
  } catch {
    return `${minor} ${currency}`;
  }
};
export const rate = (number) => (number > 0 && number < 10 ? number.toFixed(1) : count(number));
export const milliseconds = (ms) => (ms < 10 ? ms.toFixed(1) : count(ms));
export const bytes = (number) => {
  let value = number;
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (value < 1000) return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1000;
  }
  return `${value.toFixed(1)} TB`;
};
/** What nobody has ordered yet, of a sale or an item: also what is set aside for those who were called. */
export const leftOf = ({ available, turns = 0 }) => available + turns;
export const known = (value, say) => (value === null ? "not known here" : say(value));
export const clockTime = (ms) => new Date(ms).toLocaleTimeString("en-GB");
export const dayAndTime = (ms) => new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
export const duration = (ms) => {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, minutes] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
};

// A list of names and values whose nodes stay, so that nobody's place in it is lost.
export const tiles = (list, rows) => {
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

/** A row by its cells, or heads. The roles stay when a narrow page makes other boxes of the rows. */
export const rowOf = (cells, attributes = {}) => {
  for (const cell of cells) cell.setAttribute("role", cell.localName === "th" ? "columnheader" : "cell");
  return element("tr", { role: "row", ...attributes }, ...cells);
};
export const tableOf = (label, heads, rows) =>
  element(
    "table",
    { class: "items", role: "table", "aria-label": label },
    element("thead", { role: "rowgroup" }, rowOf(heads.map(([text, of]) => element("th", { scope: "col", class: of }, text)))),
    element("tbody", { role: "rowgroup" }, ...rows),
  );

/** Of a list by time. */
export const lineAt = (at, says) => element("li", {}, element("time", { datetime: new Date(at).toISOString() }, dayAndTime(at)), element("span", {}, says));

// An input of the browser's has the reader's own time, without its zone.
export const localTime = (ms) => {
  const at = new Date(ms);
  return new Date(ms - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19);
};
export const unixTime = (text) => new Date(text).getTime();

// Milliseconds that have passed, also while the machine slept, which performance.now() leaves out. A clock that is set back changes nothing.
let [seen, clock, slept] = [performance.now(), Date.now(), 0];
export const elapsed = () => {
  const [now, time] = [performance.now(), Date.now()];
  const leftOut = time - clock - (now - seen);
  if (leftOut > 1000) slept += leftOut;
  [seen, clock] = [now, time];
  return now + slept;
};

// When what stands under a heading was read or taken: of several parts, the one that is oldest; but of units that are older than the
// rest, their own time beside it.
const ages = new Map();
export const aged = (title, at = elapsed(), unitsAt = at) => {
  if (!ages.has(title)) byId(title).after(element("small", { class: "soft" }));
  ages.set(title, [at, unitsAt]);
};
export const showAges = () => {
  const ago = (at) => `${duration(elapsed() - at)} ago`;
  for (const [title, [at, unitsAt]] of ages) set(byId(title).nextElementSibling, `as of ${ago(at)}${unitsAt < at ? `; held and sold, ${ago(unitsAt)}` : ""}`);
};

// Figures come once a second: what is older says nothing of now.
export const STALE_MS = 3000;

// The latest figures, and when they were taken, by this page's clock; null before the first.
export const night = { figures: null, takenAt: 0 };

// The server's clock, as far as its latest figures say.
export const serverNow = () => night.figures.at_ms + (elapsed() - night.takenAt);

// One that is paused before its start has not started.
export const hasStarted = ({ state, starts_at_ms: starts }) => state !== "not_started" && !(state === "paused" && serverNow() < starts);

export const STATES = { not_started: "planned", live: "live", paused: "paused", ended: "ended" };

// How long an answer is waited for.
const ANSWER_MS = 10000;
export const call = async (path, options = {}) => {
  const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS), ...options });
  if (answer.status === 401) document.dispatchEvent(new Event("doubted"));
  return answer;
};
export const get = async (path) => {
  const answer = await call(path).catch(() => null);
  if (!answer) throw new Error("The server can't be reached. Try again.");
  if (!answer.ok) throw new Error(await reason(answer));
  return answer.json();
};

// What an answer that is no good says.
export const problemOf = async (answer) => {
  try {
    const told = await answer.json();
    if (told.detail) told.detail = told.detail[0].toUpperCase() + told.detail.slice(1);
    return told;
  } catch {
    return { detail: `The server answered ${answer.status}.` };
  }
};
export const reason = async (answer) => (await problemOf(answer)).detail;

// A script's numbers are exact up to 2^53.
export const TOO_LARGE = "Its number has more than 15 digits, which this page would round. In a terminal it can be done: doorbuster sale.";

// It stands until something is done that is not part of what it says.
const SAID_MS = 5000;
let saidAt = 0;
export const say = (text) => {
  saidAt = elapsed();
  set("done", text);
};
for (const what of ["pointerdown", "keydown", "wheel", "touchmove"]) {
  document.addEventListener(what, () => elapsed() - saidAt > SAID_MS && set("done", ""), { passive: true });
}
