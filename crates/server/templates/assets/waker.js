// A worker that only wakes its page: see background.js.

onmessage = ({ data: [number, ms] }) => setTimeout(() => postMessage(number), ms);
