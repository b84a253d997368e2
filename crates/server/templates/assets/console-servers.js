// The servers of a cluster, each by what its own machine has: which one is short of room, or has a wrong clock.
import { byId, bytes, count, duration, elapsed, element, night, rowOf, set, tableOf } from "./console-words.js";

const HEADS = ["Server", "As of", "Disk free", "Memory", "Clock"];

// Nothing, of what a server does not say, as one of an earlier version.
const said = (value, say) => ((value ?? null) === null ? "" : say(value));
const apart = (ms) => (Math.abs(ms) < 10000 ? `${count(Math.abs(ms))} ms` : duration(Math.abs(ms)));

const clockOf = ({ clock_confirmed: runs, clock_ahead_ms: ahead, clock_difference_ms: off }) => {
  const parts = [runs === false ? "not confirmed" : "", said(ahead, () => `${apart(ahead)} ${ahead < 0 ? "behind" : "ahead of"} most`), said(off, () => `${apart(off)} from the system's`)];
  return parts.filter(Boolean).join(", ");
};

const newRow = ({ server }) => rowOf(HEADS.map((head, at) => (at > 0 ? element("td", { "data-head": head }) : element("td", {}, server))));

/** As they are now: also while no figures come, for each grows older. */
export const showServers = () => {
  const { health, servers: all } = night.figures;
  const servers = health.dead_letters === null ? [] : all;
  const box = byId("servers");
  const names = JSON.stringify(servers.map(({ server }) => server));
  if (box.dataset.names !== names) {
    box.dataset.names = names;
    box.replaceChildren(...(servers.length > 0 ? [tableOf("Servers", HEADS.map((head) => [head, ""]), servers.map(newRow))] : []));
  }
  const rows = box.querySelectorAll("tbody tr");
  servers.forEach((of, at) => {
    const age = of.silent_ms + elapsed() - night.takenAt;
    const texts = [`${duration(age)} ago`, said(of.disk_free_bytes, (free) => `${bytes(free)} of ${bytes(of.disk_bytes)}`), said(of.memory_bytes, bytes), clockOf(of)];
    texts.forEach((text, place) => set(rows[at].children[place + 1], text || "–"));
  });
};
