// The latest rehearsal that this server played: how far it is, and what it said; and whether one is played elsewhere.
import { aged, byId, call, count, dayAndTime, duration, milliseconds, night, serverNow, set, tiles } from "./console-words.js";

const PLAYING_MS = 1000;
const IDLE_MS = 10000;

const section = byId("rehearsal");
let timer = 0;
let asks = 0;
export let played;

const OUTCOMES = { carried: "green", inconclusive: "amber", failed: "red", stopped: "amber" };

// Of the report, what the sentence does not say. Times are in microseconds.
const found = ({ answered, units, left, sold_out_s: soldOut, p50_us: p50, p99_us: p99, retries, gave_up: gaveUp, paying, admitted_per_s: admitted }) => {
  const time = (us) => `${milliseconds(us / 1000)} ms`;
  const rows = [
    ["Orders", `${count(answered.won)} of ${count(units)} units`],
    ["Sold out", left > 0 ? `no: ${count(left)} left` : `after ${soldOut.toFixed(1)} s`],
    ["Answered, p50 and p99", `${time(p50)} and ${time(p99)}`],
    ["Told that it is sold out", count(answered.sold_out)],
    ["Tried again", `${count(retries)} times; ${count(gaveUp)} gave up`],
    ["Admitted per second", admitted > 0 ? `at most ${count(admitted)}` : "all"],
  ];
  if (paying) rows.push(["Paid", `${count(paying.paid)} of ${count(paying.due)}; ${count(paying.came_back)} units came back, ${count(paying.sold_again)} sold again`]);
  return rows;
};

const show = (latest) => {
  aged("rehearsal-title");
  const none = latest.state === "none";
  section.hidden = none && !latest.elsewhere;
  set("rehearsal-elsewhere", latest.elsewhere ?? "");
  const playing = latest.state === "playing";
  byId("rehearsal-stop").hidden = !playing;
  tiles(byId("rehearsal-found"), latest.report ? found(latest.report) : []);
  if (none) {
    // The server may have been started anew.
    set("rehearsal-about", "");
    return set("rehearsal-says", "");
  }
  played = latest;
  const about = `“${latest.title}”, no. ${latest.sale}: ${count(latest.buyers)} buyers within ${latest.over_s} s, begun by ${latest.by} `;
  set("rehearsal-about", about + (playing ? `${duration(serverNow() - latest.began_at_ms)} ago` : `on ${dayAndTime(latest.began_at_ms)}`));
  byId("rehearsal-says").dataset.level = playing ? "" : OUTCOMES[latest.outcome];
  set("rehearsal-says", playing ? latest.progress || "It begins." : latest.says);
};

// Of a press: at once; then by itself, more often while one is played.
export const readRehearsal = async () => {
  clearTimeout(timer);
  asks += 1;
  const asked = asks;
  let wait = IDLE_MS;
  if (night.figures !== null && !document.hidden) {
    try {
      const answer = await call("/api/v1/rehearsal");
      if (asked !== asks) return;
      if (answer.ok) {
        const latest = await answer.json();
        show(latest);
        if (latest.state === "playing") wait = PLAYING_MS;
      }
    } catch {
      // The age of the figures says that the server can't be reached.
    }
  }
  if (asked === asks) timer = setTimeout(readRehearsal, wait);
};
