// A worker that solves the tasks of a proof of work: for each part a number with which the SHA-256 of the challenge's tag, the
// part and the number, 32 + 4 + 4 bytes, begins with so many zero bits. It is written out here because the browser's own is asked for
// one hash at a time, which takes longer than the hash, and only over TLS.

// As in proof_of_work.rs.
const PARTS = 16;
const PARTS_LOG2 = 4;

// SHA-256's constants: the first 32 bits of the fractions of the square roots and the cube roots of the first primes.
const PRIMES = [];
for (let n = 2; PRIMES.length < 64; n++) if (PRIMES.every((prime) => n % prime)) PRIMES.push(n);
const fraction = (root) => Math.floor((root - Math.floor(root)) * 2 ** 32) | 0;
const START = Int32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
const ROUNDS = Int32Array.from(PRIMES, (prime) => fraction(Math.cbrt(prime)));

const words = new Int32Array(64);
// What follows the 40 bytes: one bit, zeros, and the length.
words[10] = 0x80000000 | 0;
words[15] = 320;

const turned = (word, by) => (word >>> by) | (word << (32 - by));

/** The first 32 bits of the hash of the block in `words`. */
function head() {
  for (let i = 16; i < 64; i++) {
    const [early, late] = [words[i - 15], words[i - 2]];
    words[i] = words[i - 16] + (turned(early, 7) ^ turned(early, 18) ^ (early >>> 3))
      + words[i - 7] + (turned(late, 17) ^ turned(late, 19) ^ (late >>> 10));
  }
  let a = START[0];
  let b = START[1];
  let c = START[2];
  let d = START[3];
  let e = START[4];
  let f = START[5];
  let g = START[6];
  let h = START[7];
  for (let i = 0; i < 64; i++) {
    const one = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + words[i]) | 0;
    const two = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  return START[0] + a;
}

function solved(part, bits) {
  words[8] = part;
  for (let number = 0; number < 2 ** 32; number++) {
    words[9] = number;
    if (Math.clz32(head()) >= bits) return number;
  }
  throw new Error("no number solves this part");
}

onmessage = ({ data: challenge }) => {
  const [bits, , tag] = challenge.split(".");
  for (let i = 0; i < 8; i++) words[i] = Number.parseInt(tag.slice(8 * i, 8 * i + 8), 16);
  const numbers = [];
  for (let part = 0; part < PARTS; part++) {
    numbers.push(solved(part, bits - PARTS_LOG2));
    postMessage({ done: numbers.length / PARTS });
  }
  postMessage({ answer: [challenge, ...numbers].join(".") });
};
