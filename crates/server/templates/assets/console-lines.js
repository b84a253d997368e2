// The lines of the items that are sold to one: who joins, who waits, and what became of those who were reached.
import { itemButtons } from "./console-actions.js";
import { byId, count, duration, element, rate, tiles } from "./console-words.js";

const DRAWS = { open: "open: who joins takes part", closed: "closed: the beacon is waited for", drawn: "drawn", abandoned: "never made: the sale ended before" };

const idOf = (sale, item) => `line-${sale.id}-${item.product}`;

/** A part for each item of a sale that has a line; `latestOf` finds sale and item as they are when a button is pressed. */
export const newLines = (sale, latestOf) =>
  sale.items
    .filter((item) => item.line)
    .map((item) => element("section", { "aria-label": `Line of ${item.title}` }, element("h4", {}, `Line: ${item.title}`), element("dl", { class: "health", id: idOf(sale, item) }), element("p", { class: "row" }, ...itemButtons(latestOf(item), true))));

const lastWait = ({ waiting, pace, reached, sure_to, tail_wait_s }) => {
  if (waiting === 0) return "";
  if (tail_wait_s !== null) return `the last one waits about ${duration(tail_wait_s * 1000)}`;
  return pace === 0 || reached < sure_to ? "how long the last one waits can't be said" : "the last one is hardly reached before the end";
};

/** Its figures; nothing, of an item without a line. */
export const drawLine = (sale, item) => {
  const { line } = item;
  const list = byId(idOf(sale, item));
  if (!line || !list) return;
  const sure = Math.max(line.sure_to - line.reached, 0);
  tiles(list, [
    ["Joined", count(line.joined), line.joins_per_s === null ? "" : `${rate(line.joins_per_s)} per second`],
    ["Waiting", count(line.waiting), `${count(sure)} of them sure of a unit`],
    ["There", count(line.present), "near the front, seen in the last 15 s"],
    ["Turns open", count(line.turns), `units set aside: ${count(item.turns)}; ${count(line.in_grace)} reached and not seen yet`],
    ["Called", count(line.called), `${count(line.ordered)} ordered`],
    ["Turns not used", count(line.expired + line.given_back), `${count(line.expired)} let the time pass, ${count(line.given_back)} gave it back`],
    ["Away", count(line.away), "not there when reached"],
    ["Pace", `${count(line.pace)} a minute`, lastWait(line)],
    ["Pace is limited", line.pace_max_per_s === null ? "no" : `${count(line.pace_max_per_s)} a second`, line.pace_max_per_s === 0 ? "nobody more is reached" : ""],
    ["Everybody reads", line.message || "nothing"],
    ["Waited", line.wait ? duration(line.wait.took_s * 1000) : "–", line.wait ? `the page had said about ${duration(line.wait.said_s * 1000)}` : "nothing to compare yet"],
    ["Draw", DRAWS[line.draw] ?? line.draw],
  ]);
};
