// What a place in a line is worth, by the board alone, which is the same for everybody; and when it is reached.

// Whoever is farther behind those who are sure has nothing to tell: the server does not look at it.
const PRESENT_AHEAD = 10_000;
// Presence counts for 15 s: whoever is there when the sale starts has shown it before.
const PRESENT_BEFORE_START_MS = 20_000;
const BOARD_MS_MIN = 1000;
// A third more at most: at the back of a line of a million that is one request in a quarter of a minute.
const BOARD_MS_MAX = 11_000;
const SAMPLES_MAX = 60;
const SAMPLE_MS = 5000;
const PACE_KNOWN_AFTER_MS = 30_000;

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

/** How long a board is good enough for this place: a second near the front, longer the farther back. */
export function boardDelay(board, place) {
  if (place === null) return BOARD_MS_MAX;
  const ahead = Math.max(place - board.served, 0);
  return Math.min(Math.max(BOARD_MS_MIN * Math.sqrt(ahead / 100), BOARD_MS_MIN), BOARD_MS_MAX);
}

/** How fast the line moves, as far as this page has seen it. */
export class Pace {
  samples = [];

  note({ now_ms, served }) {
    if (now_ms < (this.samples.at(-1)?.at ?? 0) + SAMPLE_MS) return;
    this.samples.push({ at: now_ms, served });
    if (this.samples.length > SAMPLES_MAX) this.samples.shift();
  }

  /** Between how many minutes and how many a place is reached; null while the line stands, or too little is known. */
  minutesUntil(board, place) {
    const perMinute = board.pace ?? this.perMinute(board);
    const ahead = place - board.served - 1;
    if (!perMinute || ahead < 0) return null;
    const minutes = ahead / perMinute;
    return { from: Math.floor(minutes * 0.7), to: Math.ceil(minutes * 1.5) + 1 };
  }

  perMinute({ now_ms, served }) {
    const [first] = this.samples;
    const seenMs = first ? now_ms - first.at : 0;
    return seenMs < PACE_KNOWN_AFTER_MS ? null : (served - first.served) * 60_000 / seenMs;
  }
}
