// The page of a product that is sold to its line: joining, waiting, being called, ordering. It reads the board, which is the same
// for everybody, the more seldom the farther back it stands, and shows the shop that somebody is there only near the front.
// Nothing is promised from a board that is old.

import { refusalText, settle } from "./attempt.js";
import { pauseInBackground } from "./background.js";
import { Checkout } from "./buy.js";
import { everySecond, isSet, keepSynced, now, observe, spanText } from "./clock.js";
import { count, jittered, keepAsking, local, moment, stored, timeOfDay, units } from "./common.js";
import { placeOf } from "./draw.js";
import { drawCountdown, nextMoment, readOffer } from "./offer.js";
import { boardDelay, isNear, minutesUntil, openUnits, reachedDelay, secondsWithoutBeacon, worthOf } from "./place.js";
import { holds } from "./proof.js";
import {
  buyer, byId, call, closeSession, handedVerification, isSignedIn, linkThere, openSession, say, signInLink,
} from "./shop.js";
import { VIEWS, take, viewOf } from "./state.js";
import { t } from "./texts.js";
import { workOut } from "./verify.js";

const WORDS = {
  drawing: ["line-drawing", "line-drawing-text"],
  sure: ["line-sure", "line-sure-text"],
  maybe: ["line-maybe", "line-maybe-text"],
  none: ["line-none", "line-none-text"],
  unknown: ["line-unknown", "line-unknown-text"],
  reached: ["line-reached", "line-reached-text"],
  blocked: ["line-blocked", "line-blocked-text"],
  called: ["line-called", "line-called-text"],
  away: ["line-away", "line-away-text"],
  over: ["line-over", "line-over-text"],
  ordered: ["line-ordered", "line-ordered-text"],
  expired: ["line-expired", "line-expired-text"],
  given_back: ["line-given-back", "line-given-back-text"],
  closed: ["line-closed", "line-closed-text"],
};
// What else is said while the sale is paused.
const PAUSED_WORDS = { reached: "line-reached-paused", called: "line-called-paused" };
// A board that is older than this when it comes, or what the shop said of a place, promises nothing.
const OLD_MS = 5000;
// The server's clock is asked for seldom: everybody waits here, and for long.
const SYNC_MS = 600_000;
const PRESENCE_MS = [4000, 5000];
const PRESENCE_FAILING_MS_MAX = 4000;
const WARN_AT_S = [60, 30, 10];
const CLOSE_FROM_MINUTES = 15;
const MINUTE_MS = 60_000;
// Where a browser can't compute its place, the shop is asked, by everybody within this and before the first grace is over.
const ASK_WITHIN_MS = 30_000;
// Of a slow browser the first task may have lapsed before it was done.
const TASKS_MAX = 2;

const offer = readOffer();
const unitsOfTurn = Number(byId("line").dataset.units);
const graceMs = Number(byId("line").dataset.grace);
const path = `/api/v1/sales/${offer.sale}/items/${offer.product}/line`;
const mineName = `doorbuster.line.${buyer}.${offer.sale}.${offer.product}`;
const pageTitle = document.title;

// The reader's place as the shop said it last, which a reload still has; and when that was.
let mine = stored(mineName);
let mineAt = -Infinity;
let board = null;
let boardAt = -Infinity;
let boardWait = 0;
// How often it was asked whether a place that is reached is called.
let asksReached = 0;
let draw = null;
// What moved the borders last, since the page was opened, and when.
let moved = null;
// Of what the shop says to everybody here: the board has another number when it says something else.
let told = 0;
let view = null;
let phase = "";
let toldSeconds = Infinity;
let asking = null;
let audio = null;

// Of who was called; the last turn may be for fewer than the others.
const turnUnits = () => (view === "called" && mine.turn_units) || unitsOfTurn;
const startsIn = () => offer.startsAt - now();

/** The board was fresh when it came, and the next one is not overdue. */
function isKnown() {
  const age = performance.now() - boardAt;
  return board !== null && isSet() && now() - age - board.now_ms < OLD_MS && age < boardWait + OLD_MS;
}

function viewNow() {
  if (!mine) return phase === "ended" ? "closed" : "outside";
  const { standing, place } = mine;
  if (standing === "over" || (standing === "called" && (phase === "paused" || now() < mine.turn_until_ms + OLD_MS))) return standing;
  // A page that has just been opened has not asked yet.
  if (!isKnown()) return performance.now() < OLD_MS ? "" : "unknown";
  // Who was away is called for what is left over, and for nothing after the end.
  if (standing === "away" && phase === "ended") return "closed";
  if (standing === "away" && openUnits(board) === 0) return "none";
  if (standing === "waiting") return place === null && phase !== "ended" ? "drawing" : worthOf(board, place ?? Infinity);
  return performance.now() > mineAt + 2 * OLD_MS ? "unknown" : mine.blocked_by ? "blocked" : standing;
}

function redraw() {
  if (board) Object.assign(offer, { phase: board.state, available: openUnits(board), known: true });
  phase = viewOf(offer);
  const next = viewNow();
  if (byId("offer").dataset.view !== phase) changePhase();
  if (next !== view) change(next);
  drawCountdown(offer, phase);
  drawUnits();
  drawPlace();
  drawTurn();
  byId("check").hidden = !mine?.ticket || mine.place === null || !draw?.seed || mine.number > draw.entries || !crypto.subtle;
}

function changePhase() {
  byId("offer").dataset.view = phase;
  byId("badge").textContent = VIEWS[phase].badge;
  say(byId("status"), phase === "paused" ? VIEWS.paused.said : "");
  drawWords();
  drawForm();
}

function change(next) {
  const before = view;
  view = next;
  byId("line").dataset.view = view;
  drawWords();
  byId("worth").classList.toggle("good", view === "sure" || view === "called");
  byId("join").hidden = view !== "outside";
  byId("meaning").hidden = view !== "outside";
  byId("receipt").hidden = !mine || !["blocked", "away", "over", "none", "closed"].includes(view);
  byId("sound").hidden = ["outside", "over", "closed"].includes(view);
  document.title = view === "called" ? `${t("line-called")} · ${pageTitle}` : pageTitle;
  drawForm();
  if (view === "called" && before) ring(3);
}

function drawWords() {
  const words = WORDS[(view === "over" && mine.outcome) || view];
  const heading = document.createElement("strong");
  heading.textContent = words ? t(words[0]) : "";
  const name = words && ((phase === "paused" && PAUSED_WORDS[view]) || words[1]);
  byId("worth").replaceChildren(...(words ? [heading, ` ${t(name, { units: units(turnUnits()) })}`] : []));
}

// Whoever waits can fill it in; who was called can send it. An order whose answer is missing is asked for in any view.
function drawForm() {
  const called = view === "called" && phase !== "paused";
  const waits = !["", "outside", "over", "closed", "none"].includes(view) && Boolean(byId("address"));
  byId("buy").hidden = !(view === "called" || waits || checkout.attempt());
  byId("ready").hidden = view === "called" || !waits;
  byId("leave").hidden = view !== "called";
  if (called) checkout.setAvailable(turnUnits());
  checkout.setOpen(called, called ? t("buy-now") : view === "called" ? VIEWS.paused.button : t("line-not-yet"));
}

function drawUnits() {
  const total = board ? openUnits(board) + board.sold : offer.total;
  byId("bar").max = Math.max(total, 1);
  byId("bar").value = board ? openUnits(board) : total;
  byId("left").textContent = board && phase !== "not_started"
    ? t("line-unsold", { left: count(openUnits(board)), total: units(total) })
    : t("line-units", { count: total, text: count(total) });
}

function drawPlace() {
  const place = mine?.place ?? null;
  const waits = ["sure", "maybe", "unknown"].includes(view);
  byId("place").hidden = !mine || ["over", "closed"].includes(view);
  if (place !== null) say(byId("place"), t("line-place", { place: count(place) }));
  else if (mine) say(byId("place"), t("line-number", { number: count(mine.number) }));
  const way = byId("way");
  way.hidden = !waits || place === null || phase === "not_started";
  if (board && place !== null) {
    way.max = place;
    way.value = Math.max(way.value, Math.min(board.served, place));
  }
  byId("figures").textContent = figures(place).join(" ");
  byId("moved").textContent = moved && (waits || view === "none") ? moved : "";
  byId("when").textContent = waits || view === "drawing" ? prospects(place).join(" ") : "";
  const closes = draw?.closes_at_ms && draw.state === "open" ? { time: moment(draw.closes_at_ms) } : null;
  byId("drawn").hidden = view !== "outside" || !closes;
  // Also what whoever runs the sale could still do.
  if (closes) byId("drawn").textContent = `${t("line-draw-open", closes)} ${draw.beacon ? t("line-draw-beacon", { late: secondsWithoutBeacon(draw, offer.startsAt) }) : t("line-draw-alone")}`;
}

// Who is sure stays so. All else may be another by now, the more so the farther back one stands: it is said of when it is.
function figures(place) {
  if (view !== "maybe" && view !== "none") return [];
  const asOf = t("line-as-of", { time: timeOfDay(board.now_ms) });
  if (view === "none") return [asOf];
  const ahead = place - 1 - board.sure_to;
  return [
    asOf,
    t("line-ahead", { count: ahead, text: count(ahead) }),
    t("line-open", { units: units(openUnits(board)) }),
    ...(board.gave_up ? [t("line-gave-up", { text: count(board.gave_up) })] : []),
  ];
}

// Why a place is worth more or less than it was.
function reasonOf(before, after) {
  const added = openUnits(after) + after.sold - openUnits(before) - before.sold;
  const time = moment(after.now_ms);
  if (added > 0) return t("line-moved-added", { time, units: units(added) });
  if (added < 0) return t("line-moved-taken", { time, units: units(-added) });
  const unpaid = before.held - after.held - (after.sold - before.sold);
  if (unpaid > 0) return t("line-moved-unpaid", { time, units: units(unpaid) });
  const gaveUp = after.gave_up - before.gave_up;
  return gaveUp > 0 ? t("line-moved-back", { time, text: count(gaveUp) }) : null;
}

// When it goes on, and whether the page may be closed until then.
function prospects(place) {
  if (!isSet()) return [];
  const said = [];
  let backAt = null;
  if (place === null && draw?.closes_at_ms > now()) said.push(t("line-drawn-at", { time: moment(draw.closes_at_ms) }));
  if (phase === "not_started") {
    said.push(t("line-starts", { time: moment(offer.startsAt) }));
    if (startsIn() > 10 * MINUTE_MS) backAt = offer.startsAt - 5 * MINUTE_MS;
  } else if (place !== null && isKnown() && phase !== "paused") {
    const wait = minutesUntil(board, place);
    // Whoever is not sure by the end is never reached.
    const isLate = (minutes) => view !== "sure" && now() + minutes * MINUTE_MS >= offer.endsAt;
    if (!wait) said.push(t("line-no-time"));
    else if (!isLate(wait.from)) {
      said.push(t("line-minutes", { from: count(wait.from), to: count(wait.to) }));
      const half = now() + wait.from * MINUTE_MS / 2;
      if (wait.from >= CLOSE_FROM_MINUTES && half < offer.endsAt) backAt = half;
    }
    if (wait && isLate(wait.to)) said.push(t("line-late", { time: moment(offer.endsAt) }));
  }
  said.push(backAt ? t("line-may-close", { time: moment(backAt) }) : t("line-stay"));
  return said;
}

function drawTurn() {
  const shown = view === "called" && phase !== "paused" && isSet();
  byId("turn").hidden = !shown;
  byId("turn-label").hidden = !shown;
  if (!shown) {
    toldSeconds = Infinity;
    return;
  }
  const left = mine.turn_until_ms - now();
  byId("turn").textContent = spanText(left);
  const seconds = Math.ceil(left / 1000);
  byId("turn").classList.toggle("soon", seconds <= 30);
  const passed = WARN_AT_S.findLast((at) => seconds <= at && toldSeconds > at);
  if (passed) say(byId("turn-said"), t("line-seconds-left", { text: count(Math.max(seconds, 0)) }));
  toldSeconds = seconds;
}

// Only whoever has asked for it hears something: a browser plays nothing unasked, and a page should not.
function ring(times) {
  if (!audio) return;
  for (let i = 0; i < times; i++) {
    const [tone, loudness] = [audio.createOscillator(), audio.createGain()];
    const at = audio.currentTime + i * 0.6;
    tone.frequency.value = 880;
    loudness.gain.setValueAtTime(0.2, at);
    loudness.gain.exponentialRampToValueAtTime(0.001, at + 0.5);
    tone.connect(loudness).connect(audio.destination);
    tone.start(at);
    tone.stop(at + 0.5);
  }
}

function takePlace(place, sentAt) {
  observe(place.now_ms, sentAt, performance.now());
  const { number = null, place: drawn = null, standing, blocked_by, outcome, turn_until_ms, turn_units, ticket } = place;
  // What this page has computed is what the shop would say.
  mine = { number, place: drawn ?? mine?.place ?? null, standing, blocked_by, outcome, turn_until_ms, turn_units, ticket, said_ms: place.now_ms, commitment: mine?.commitment ?? draw?.commitment };
  mineAt = performance.now();
  local.set(mineName, JSON.stringify(mine));
  redraw();
}

function forgetPlace() {
  mine = null;
  local.remove(mineName);
  redraw();
}

/** Asks as this buyer, who is signed in or has a ticket; "" joins. */
async function askAs(what, given = {}) {
  if (!given.ticket) await openSession();
  const sentAt = performance.now();
  const body = Object.keys(given).length ? JSON.stringify(given) : undefined;
  const answer = await call("POST", path + what, { body });
  if (answer?.standing) takePlace(answer, sentAt);
  return answer;
}

let joining = false;
// Whoever comes back with it from the shop's check has pressed the button before.
let handed = byId("line").dataset.verification ? handedVerification : null;

async function join(event) {
  event?.preventDefault();
  const outcome = byId("join-outcome");
  if (joining) return;
  if (!isSignedIn()) {
    say(outcome, t("sign-in-first"), "bad");
    outcome.append(...signInLink());
    return;
  }
  joining = true;
  byId("join-button").setAttribute("aria-busy", "true");
  say(outcome, t("one-moment"));
  // Whoever has a place gets the same one again, so it is asked until there is an answer.
  const ask = (given) => settle({
    send: () => askAs("", given),
    renew: closeSession,
    progress: (reason) => say(outcome, reason),
    isWhole: (answer) => Boolean(answer?.standing),
  });
  let said = await ask(handed ? { verification: handed } : {});
  handed = null;
  for (let tasks = 0; said.refusal?.challenge && tasks < TASKS_MAX; tasks++) {
    const verification = await work(said.refusal.challenge);
    if (!verification) break;
    said = await ask({ verification });
  }
  const { order: place, refusal, unauthorized } = said;
  joining = false;
  byId("join-button").removeAttribute("aria-busy");
  const refused = refusal ? refusalText(refusal) : unauthorized?.message ?? t("no-answer");
  say(outcome, place ? "" : refused, place ? "" : "bad");
  if (unauthorized) outcome.append(...signInLink());
  if (refusal?.code === "verification_token_required") {
    outcome.append(...linkThere(byId("line").dataset.verification, "line-verify"));
  }
  if (!place) return;
  // The button that was pressed is gone.
  byId("place").focus();
  wakeBoard();
  wakePresence();
}

// What the shop asks of whoever joins, worked out in sight.
async function work(challenge) {
  const bar = byId("work");
  say(byId("join-outcome"), t("line-working"));
  bar.hidden = false;
  const answer = await workOut(challenge, (done) => (bar.value = done));
  bar.hidden = true;
  bar.value = 0;
  return answer;
}

// Whoever waits for long may have been signed out. The ticket shows that they are there, and can't order.
function askToSignIn() {
  if (byId("status").textContent) return;
  say(byId("status"), t("sign-in-first"));
  byId("status").append(...signInLink());
}

async function leave() {
  try {
    await askAs("/leave");
  } catch {
    // The turn is over by now, or it goes on: the shop says which.
  }
  wakePresence();
}

// What is signed are bytes, so it is saved as it comes.
async function saveReceipt() {
  say(byId("receipt-outcome"), "");
  try {
    const body = JSON.stringify({ ticket: mine.ticket });
    const answer = await fetch(`${path}/receipt`, { method: "POST", headers: { "content-type": "application/json" }, body });
    if (!answer.ok) throw new Error(answer.statusText);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await answer.blob());
    link.download = `receipt-${offer.sale}-${offer.product}-${mine.number}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), MINUTE_MS);
  } catch {
    say(byId("receipt-outcome"), t("line-receipt-failed"));
  }
}

async function checkPlace() {
  say(byId("check-outcome"), "");
  byId("check").disabled = true;
  const { number, place, ticket } = mine;
  try {
    const { receipt } = await askAs("/receipt", { ticket });
    // What can't be read holds nothing either.
    const good = await holds(offer, mine, draw, receipt.path ?? []).catch(() => false);
    const figures = { number: count(number), place: count(place), entries: count(draw.entries) };
    say(byId("check-outcome"), t(good ? "line-check-good" : "line-check-bad", figures), good ? "good" : "bad");
  } catch {
    say(byId("check-outcome"), t("line-check-failed"), "bad");
  } finally {
    byId("check").disabled = false;
  }
}

async function readBoard() {
  const read = await call("GET", path).catch((error) => {
    // It is overdue from now on, not from when it would have been asked for without this.
    boardWait = Math.min(boardWait, performance.now() - boardAt);
    throw error;
  });
  // Two caches may be a second apart: the newer one stays.
  if (board && read.now_ms < board.now_ms) return;
  const isFirst = board === null;
  moved = (board && reasonOf(board, read)) ?? moved;
  board = read;
  boardAt = performance.now();
  boardWait = waitForBoard();
  // The sale was moved under the page, or its data is new.
  if ((board.state === "not_started") !== (startsIn() > 0)) wakeTimes();
  // Another ledger's place. A board from before the place can't have it.
  if (mine && board.now_ms > mine.said_ms && (mine.place ?? mine.number) > board.tail) forgetPlace();
  if (isFirst || (mine?.standing === "waiting" && isReached())) wakePresence();
  redraw();
  // What can't be read is asked for with the next board.
  if (board.told !== told) readMessage().catch(() => {});
  await followDraw();
}

async function readMessage() {
  const read = await call("GET", `${path}/message`);
  told = read.told;
  say(byId("message"), read.message);
}

function waitForBoard() {
  if (mine?.standing === "over" || view === "closed") return jittered(30_000);
  const place = mine?.place ?? null;
  // Before the start nothing moves but the number of those who join. A page that nobody sees still has to hear of its place.
  const isSlow = startsIn() > MINUTE_MS || (document.hidden && place !== null);
  return jittered(isSlow ? 11_000 : boardDelay(board, place, graceMs));
}

// The board says when there was a draw; the page then finds its place by itself.
async function followDraw() {
  if (!draw || (board.drawn !== null && !draw.seed)) draw = await call("GET", `${path}/draw`);
  if (mine?.place === null && draw.seed) await findPlace();
  redraw();
}

async function findPlace() {
  if (!crypto.subtle) {
    const within = Math.min(Math.max(startsIn(), 0) + graceMs / 4, ASK_WITHIN_MS);
    asking ??= setTimeout(() => askAs("").then(comeBack, () => { asking = null; }), within * Math.random());
    return;
  }
  const place = await placeOf(draw.seed, draw.entries, mine.number);
  if (!mine) return;
  mine = { ...mine, place };
  local.set(mineName, JSON.stringify(mine));
  boardWait = waitForBoard();
  wakePresence();
}

// The turn opens any moment.
const isReached = () => mine?.standing === "reached"
  || (mine?.standing === "waiting" && mine.place !== null && mine.place <= (board?.served ?? 0));

function presenceDelay() {
  const [least, most] = PRESENCE_MS;
  const usual = least + (most - least) * Math.random();
  asksReached = isReached() ? asksReached + 1 : 0;
  return asksReached ? Math.min(reachedDelay(asksReached), usual) : usual;
}

async function showPresence() {
  if (!mine || (mine.standing === "over" && mine.outcome) || !board) return;
  if (mine.standing === "waiting" && (mine.place === null || !isNear(board, mine.place, startsIn()))) return;
  if (view === "closed") return;
  try {
    await askAs("/presence");
  } catch (error) {
    if (error.code === "not_in_line") return forgetPlace();
    if (error.status !== 401) throw error;
    if (!closeSession()) askToSignIn();
    if (mine?.ticket) await askAs("/presence", { ticket: mine.ticket });
  }
}

// When the sale starts and ends is no part of the board.
async function readTimes() {
  const sentAt = performance.now();
  const stock = await call("GET", `/api/v1/stock?sale=${offer.sale}&product=${offer.product}`);
  observe(stock.now_ms, sentAt, performance.now());
  // What is set aside for a turn is not sold out.
  take(offer, { ...stock, available: board ? openUnits(board) : stock.total }, sentAt);
  redraw();
}

const checkout = new Checkout(offer, () => wakePresence());
// Whoever looks at another page meanwhile is there, too.
const wakeBoard = keepAsking(readBoard, () => boardWait, 4000, pauseInBackground);
const wakePresence = keepAsking(showPresence, presenceDelay, PRESENCE_FAILING_MS_MAX, pauseInBackground);
const wakeTimes = keepAsking(readTimes, () => jittered(SYNC_MS));
const tick = everySecond(() => nextMoment(offer, phase), redraw);
keepSynced(call, tick, SYNC_MS);

function comeBack() {
  if (document.hidden) return;
  wakeBoard();
  wakePresence();
}

byId("join").addEventListener("submit", join);
if (handed && !mine) join();
byId("leave").addEventListener("click", () => byId("sure").showModal());
byId("sure").addEventListener("close", () => {
  if (byId("sure").returnValue === "leave") leave();
  byId("sure").returnValue = "";
});
byId("receipt").addEventListener("click", saveReceipt);
byId("check").addEventListener("click", checkPlace);
byId("sound").addEventListener("click", () => {
  if (audio) audio.close();
  audio = audio ? null : new AudioContext();
  byId("sound").setAttribute("aria-pressed", String(audio !== null));
  ring(1);
});
document.addEventListener("visibilitychange", comeBack);
addEventListener("pageshow", (event) => event.persisted && comeBack());
addEventListener("online", comeBack);
// Another tab of this buyer's has joined, or was called.
addEventListener("storage", ({ key }) => {
  // An attempt of another tab has begun, or its answer is there.
  if (key === checkout.attemptName) drawForm();
  if (key !== mineName) return;
  mine = stored(mineName);
  mineAt = performance.now();
  redraw();
});
