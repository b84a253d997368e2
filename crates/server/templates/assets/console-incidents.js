// The latest times in which the verdict was not green, or the server did not run, as the server's history has them.
import { aged, byId, call, dayAndTime, duration, lineAt, night, serverNow, set } from "./console-words.js";

const SHOWN = 10;
const SPAN_MS = 3 * 86400 * 1000;
const EVERY_MS = 30000;
// The history has a second a moment after the page.
const WRITTEN_MS = 2000;

let judged = "";
let timer = 0;
// A reading is about to begin, or goes on.
let isReading = false;
let shown = "";

/** With each sample: another verdict may be another incident. One that comes and goes each second puts nothing off. */
export const followIncidents = ({ level, code }) => {
  if (isReading || judged === `${level} ${code}`) return;
  // The first time what was before the page is read at once.
  const wait = judged === "" ? 0 : WRITTEN_MS;
  judged = `${level} ${code}`;
  isReading = true;
  clearTimeout(timer);
  timer = setTimeout(read, wait);
};

const read = async () => {
  isReading = true;
  const now = Math.floor(serverNow());
  const query = new URLSearchParams({ from_ms: now - SPAN_MS, to_ms: now, points: 1 });
  const answer = document.hidden || night.figures === null ? null : await call(`/api/v1/figures/history?${query}`).catch(() => null);
  const history = answer?.ok ? await answer.json().catch(() => null) : null;
  if (history) draw(history.incidents.slice(-SHOWN).reverse());
  isReading = false;
  timer = setTimeout(read, EVERY_MS);
};

const draw = (incidents) => {
  aged("incidents-title");
  const wanted = JSON.stringify(incidents);
  if (wanted === shown) return;
  shown = wanted;
  byId("incidents").replaceChildren(...incidents.map(line));
  set("incidents-say", says(incidents.length));
};

const says = (number) => {
  if (number === 0) return "None in the last 3 days.";
  return number < SHOWN ? "All of the last 3 days." : `The latest ${SHOWN} of the last 3 days.`;
};

const line = ({ began_ms: began, ended_ms: ended, level, says }) => {
  const until = ended === null ? "goes on" : `until ${dayAndTime(ended)}, ${duration(ended - began)}`;
  return lineAt(began, `${level}, ${until}: ${says}`);
};
