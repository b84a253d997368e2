// What a shop may ask for before somebody joins a line: a task, worked out beside the page, which can be used meanwhile.

/** The answer to a challenge, or null if this browser can't work it out. `progress` is told how much is done, from 0 to 1. */
export function workOut(challenge, progress) {
  // It fails where there are no workers, or none may be started.
  return new Promise((done) => {
    const worker = new Worker(new URL("./solver.js", import.meta.url));
    const end = (answer) => {
      worker.terminate();
      done(answer);
    };
    worker.onerror = () => end(null);
    worker.onmessage = ({ data }) => (data.answer ? end(data.answer) : progress(data.done));
    worker.postMessage(challenge);
  }).catch(() => null);
}
