// What is allowed, and rarely meant: asked about once before it is done. The same rules as `doorbuster sale create` has.
import { count, dayAndTime, duration, money, people, serverNow } from "./console-words.js";

const MINUTE_MS = 60_000;
const PAYMENT_MIN_S = 60;
const DAY_S = 86_400;
// Of a line: a page needs some seconds to hear that its place is reached.
const GRACE_MIN_S = 10;
const LENGTH_MAX_MS = 30 * DAY_S * 1000;
// Times the largest item so far; of a restock, times what the item has.
const GROWTH_MAX = 10;
// Of an item, whatever was sold before: one that was mistyped would hide the next.
const UNITS_MAX = 1_000_000;

/** Of what is about to be done; what is left out stays as it is. `items`: product, and price or units or both. `largest`: units of the largest item of all sales, as the server says. `told`: people in its lines who were told of a later start. */
export const slips = ({ starts_at_ms: starts, length_ms: length, payment_s: payment, items = [], currency, told = 0, largest = null }) => {
  const found = [];
  if (told > 0) found.push(`The start comes sooner than ${people(told)} in its lines heard: whoever closed the page may miss it.`);
  if (starts < serverNow()) found.push(`The start is past: ${dayAndTime(starts)}.`);
  if (length < MINUTE_MS) found.push("The sale lasts less than a minute.");
  if (length > LENGTH_MAX_MS) found.push(`The sale lasts ${duration(length)}.`);
  if (payment !== null && payment < PAYMENT_MIN_S) found.push(`Buyers have ${duration(payment * 1000)} to pay.`);
  if (payment > DAY_S) found.push(`Buyers have ${duration(payment * 1000)} to pay, and what they hold is nobody else's.`);
  for (const { product, price, list_price: elsewhere, line } of items) {
    if (price === 0) found.push(`Product ${product} costs nothing.`);
    if (price > elsewhere) found.push(`Product ${product} costs more than its list price: ${money(price, currency)}, and ${money(elsewhere, currency)}.`);
    if (line?.grace_s < GRACE_MIN_S) found.push(`Whoever is not there when reached is waited for ${duration(line.grace_s * 1000)} in the line of product ${product}.`);
  }
  for (const { product, units } of items) {
    if (units > UNITS_MAX) found.push(`Product ${product} has more than a million units: ${count(units)}.`);
    if (largest !== null && units > GROWTH_MAX * largest) found.push(`${count(units)} units of product ${product} are more than ${GROWTH_MAX} times the largest item of all sales so far, ${count(largest)}.`);
  }
  return found;
};

/** Of adding so many units to an item. One that has none has nothing to compare with. */
export const slipsOfRestock = ({ product, total }, units) => {
  const after = total + units;
  if (total === 0 || after <= GROWTH_MAX * total) return [];
  return [`Product ${product} has ${count(after)} units then, more than ${GROWTH_MAX} times what it has.`];
};
