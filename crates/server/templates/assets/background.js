// Pauses that end in time in a page that is not shown: a browser lets the timers of such a page go off once a minute, and those of
// its workers as ever.

import { pause } from "./common.js";

const waiting = new Map();
let asked = 0;
let worker = null;

// Without workers the page's own timers have to do.
function withoutWorker() {
  worker = null;
  for (const end of waiting.values()) end();
  waiting.clear();
}

try {
  worker = new Worker(new URL("./waker.js", import.meta.url));
  worker.onerror = withoutWorker;
  worker.onmessage = ({ data: number }) => {
    waiting.get(number)?.();
    waiting.delete(number);
  };
} catch {
  withoutWorker();
}

export function pauseInBackground(ms) {
  if (!worker) return pause(ms);
  asked += 1;
  worker.postMessage([asked, ms]);
  return new Promise((end) => waiting.set(asked, end));
}
