// Whether a place is what the draw gives whoever holds the ticket: found out here, from what was published and what the shop shows of
// the entries, whatever the shop says. What no browser can check is the beacon's own signature.

import { bytes, placeOf } from "./draw.js";

const text = (words) => new TextEncoder().encode(words);
const hex = (of) => Array.from(of, (byte) => byte.toString(16).padStart(2, "0")).join("");

async function hashOf(...parts) {
  const joined = new Uint8Array(await new Blob(parts).arrayBuffer());
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined));
}

function numberIn(size, number) {
  return bytes(BigInt(number).toString(16).padStart(2 * size, "0"));
}

/** What stands in the tree for whoever holds this ticket. */
function leafOf({ sale, product }, ticket) {
  const [number, buyer, proof] = ticket.split(".");
  const whose = buyer.length === 32 ? bytes(buyer) : numberIn(16, buyer);
  return hashOf(Uint8Array.of(0), numberIn(8, sale), numberIn(8, product), numberIn(4, number), whose, bytes(proof));
}

/** The root that a leaf and the roots beside its way lead to (RFC 6962's audit path); null: so many entries have no such path. */
async function climb(leaf, number, entries, path) {
  const fromLeft = [];
  for (let [from, to] = [0, entries]; to - from > 1; ) {
    const middle = from + 2 ** (31 - Math.clz32(to - from - 1));
    fromLeft.unshift(number <= middle);
    if (number <= middle) to = middle;
    else from = middle;
  }
  if (fromLeft.length !== path.length) return null;
  let root = leaf;
  for (const [at, beside] of path.map(bytes).entries()) {
    root = await hashOf(Uint8Array.of(1), ...(fromLeft[at] ? [root, beside] : [beside, root]));
  }
  return root;
}

/**
 * `mine`: number, place and ticket, with the commitment that was seen when it was given; `draw`: what is published; `path`: of the
 * own entry.
 */
export async function holds(item, mine, draw, path) {
  const { secret, root, seed, entries, beacon, randomness } = draw;
  const committed = hex(await hashOf(bytes(secret)));
  if (committed !== draw.commitment || (mine.commitment ?? committed) !== committed) return false;
  if (randomness && hex(await hashOf(bytes(beacon.signature))) !== randomness) return false;
  const random = randomness ? [Uint8Array.of(1), bytes(randomness)] : [Uint8Array.of(0)];
  if (hex(await hashOf(text("doorbuster seed 1"), bytes(secret), bytes(root), ...random)) !== seed) return false;
  if (mine.number > entries || Number(mine.ticket.split(".")[0]) !== mine.number) return false;
  const reached = await climb(await leafOf(item, mine.ticket), mine.number, entries, path);
  return reached !== null && hex(reached) === root && (await placeOf(seed, entries, mine.number)) === mine.place;
}
