// The list of sales: when each one starts or ends, counted down by the server's clock.

import { everySecond, keepSynced, now, spanText } from "./clock.js";
import { moment } from "./shop.js";

const BADGES = { not_started: "Starts soon", live: "Live", paused: "Paused", ended: "Ended" };

function draw(section) {
  const { data } = section;
  let state = data.state;
  if (state === "not_started" && now() >= section.startsAt) state = "live";
  if (now() >= section.endsAt) state = "ended";
  data.state = state;
  section.badge.textContent = BADGES[state];
  section.when.textContent = {
    not_started: `Starts in ${spanText(section.startsAt - now())}`,
    ended: `Ended ${moment(section.endsAt)}`,
  }[state] ?? `Ends in ${spanText(section.endsAt - now())}`;
}

const ticks = [...document.querySelectorAll("section.sale")].map((element) => {
  const section = {
    data: element.dataset,
    startsAt: Number(element.dataset.startsAt),
    endsAt: Number(element.dataset.endsAt),
    badge: element.querySelector("[data-badge]"),
    when: element.querySelector("[data-when]"),
  };
  const target = () => (section.data.state === "not_started" ? section.startsAt : section.endsAt);
  return everySecond(target, () => draw(section));
});
if (ticks.length > 0) keepSynced(() => ticks.forEach((tick) => tick()));
