// Where a draw puts a number: a keyed permutation of the numbers 1 to `entries`, which anybody can compute from the seed once it is
// published (a Feistel network over the bits of a number, walked until it lands among them).

const ROUNDS = 10;

/** What hexadecimal digits stand for. */
export const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (byte) => Number.parseInt(byte, 16));

/** The place of a number; whoever joined after the draw has the number as the place. */
export async function placeOf(seedHex, entries, number) {
  if (number > entries || entries === 1) return number;
  const key = await crypto.subtle.importKey("raw", bytes(seedHex), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const bits = Math.max(2, Math.ceil(Math.log2(entries)));
  const rightBits = Math.floor(bits / 2);
  const rightMask = 2 ** rightBits - 1;
  const leftMask = 2 ** (bits - rightBits) - 1;
  let at = number - 1;
  do {
    let [left, right] = [at >>> rightBits, at & rightMask];
    for (let round = 0; round < ROUNDS; round += 2) {
      left ^= (await mixed(key, round, entries, right)) & leftMask;
      right ^= (await mixed(key, round + 1, entries, left)) & rightMask;
    }
    at = left * 2 ** rightBits + right;
  } while (at >= entries);
  return at + 1;
}

async function mixed(key, round, entries, half) {
  const message = new DataView(new ArrayBuffer(9));
  message.setUint8(0, round);
  message.setUint32(1, entries);
  message.setUint32(5, half);
  return new DataView(await crypto.subtle.sign("HMAC", key, message)).getUint32(0);
}
