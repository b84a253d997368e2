// The list of sales: when each one starts or ends, counted down by the server's clock.

import { everySecond, isSet, keepSynced, now, spanText } from "./clock.js";
import { moment } from "./common.js";
import { call } from "./shop.js";

const BADGES = { not_started: "Starts soon", live: "Live", paused: "Paused", ended: "Ended" };

function draw(section) {
  // The page as it was rendered stands until the server's time is known.
  if (!isSet()) return;
  const time = now();
  let { state } = section;
  if (state === "not_started" && time >= section.startsAt) state = "live";
  if (time >= section.endsAt) state = "ended";
  section.data.state = state;
  section.badge.textContent = BADGES[state];
  section.when.textContent = {
    not_started: `Starts in ${spanText(section.startsAt - time)}`,
    ended: section.endedEarly ? "Ended early" : `Ended ${moment(section.endsAt)}`,
  }[state] ?? `Ends in ${spanText(section.endsAt - time)}`;
}

const ticks = [...document.querySelectorAll("section.sale")].map((element) => {
  const section = {
    data: element.dataset,
    state: element.dataset.state,
    startsAt: Number(element.dataset.startsAt),
    endsAt: Number(element.dataset.endsAt),
    endedEarly: element.dataset.early !== undefined,
    badge: element.querySelector("[data-badge]"),
    when: element.querySelector("[data-when]"),
  };
  const target = () => (now() < section.startsAt ? section.startsAt : section.endsAt);
  return everySecond(target, () => draw(section));
});
if (ticks.length > 0) keepSynced(call, () => ticks.forEach((tick) => tick()));
