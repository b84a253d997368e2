// What a place in a line is worth, by the board alone, which is the same for everybody; and when it is reached.

// Whoever is farther behind those who are sure has nothing to tell: the server does not look at it.
const PRESENT_AHEAD = 10_000;
// Presence counts for 15 s: whoever is there when the sale starts has shown it before.
const PRESENT_BEFORE_START_MS = 20_000;
const BOARD_MS_MIN = 1000;
// A third more at most: at the back of a line of a million that is one request in a quarter of a minute.
const BOARD_MS_MAX = 11_000;
// Of a grace that is shorter, such a part at most, with the third more.
const SHORT_GRACE_MS = 20_000;
const GRACE_PART = 0.45;

// Whoever is reached is called within moments, unless the shop may not call them.
const REACHED_MS = 1000;

// The round that a draw waits for is emitted so long after the close or a period later, and waited for so long then.
const ROUND_AFTER_MS = 3_000;
const ROUND_WAITED_FOR_MS = 20_000;

/** Units that somebody may still get who was not promised one. */
export const openUnits = (board) => board.free + board.turns + board.held;

/** "sure", "maybe", "none", or "closed": nobody becomes sure after the end. */
export function worthOf(board, place) {
  if (place <= board.sure_to) return "sure";
  if (board.state === "ended") return "closed";
  return openUnits(board) === 0 ? "none" : "maybe";
}

/** Whether somebody in this place has to show that they are there. */
export const isNear = (board, place, startsInMs) => place <= board.sure_to + PRESENT_AHEAD && startsInMs < PRESENT_BEFORE_START_MS;

/** How long a board is good enough for this place: a second near the front, longer the farther back. Who has none yet may be the
 * first who is reached, and is to hear of it within a grace that is short. */
export function boardDelay(board, place, graceMs) {
  if (place === null) return graceMs < SHORT_GRACE_MS ? Math.max(GRACE_PART * graceMs, BOARD_MS_MIN) : BOARD_MS_MAX;
  const ahead = Math.max(place - board.served, 0);
  return Math.min(Math.max(BOARD_MS_MIN * Math.sqrt(ahead / 100), BOARD_MS_MIN), BOARD_MS_MAX);
}

/** How long whoever is reached waits before they ask whether they are called, the longer the more often they asked. */
export const reachedDelay = (asks) => REACHED_MS * 1.5 ** (asks - 1);

/** Between how many minutes and how many a place is reached, at the line's pace. null: that can't be said, as the line stands, or goes on by
 * those who are sure, and how fast others become sure is not known. */
export function minutesUntil({ pace, served, sure_to }, place) {
  const ahead = place - served - 1;
  if (pace === 0 || ahead < 0 || (place > sure_to && served < sure_to)) return null;
  const minutes = ahead / pace;
  return { from: Math.floor(minutes * 0.7), to: Math.ceil(minutes * 1.5) + 1 };
}

/** How many seconds after the start a draw is made at the latest whose beacon stays silent; 0: at the start. */
export function secondsWithoutBeacon({ closes_at_ms, beacon }, startsAt) {
  const latest = closes_at_ms + ROUND_AFTER_MS + beacon.period_s * 1000 + ROUND_WAITED_FOR_MS;
  return Math.max(Math.ceil((latest - startsAt) / 1000), 0);
}
