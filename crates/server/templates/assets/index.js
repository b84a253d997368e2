// The list of sales: when each one starts or ends, counted down by the server's clock.

import { everySecond, isSet, keepSynced, now, spanText } from "./clock.js";
import { moment } from "./common.js";
import { call } from "./shop.js";
import { t } from "./texts.js";

const BADGES = { not_started: "badge-starts-soon", live: "badge-live", paused: "badge-paused", ended: "badge-ended" };

function draw(section) {
  // The page as it was rendered stands until the server's time is known.
  if (!isSet()) return;
  const time = now();
  let { state } = section;
  if (state === "not_started" && time >= section.startsAt) state = "live";
  if (time >= section.endsAt) state = "ended";
  section.data.state = state;
  section.badge.textContent = t(BADGES[state]);
  section.when.textContent = {
    not_started: t("starts-in", { span: spanText(section.startsAt - time) }),
    ended: section.endedEarly ? t("ended-early") : t("ended-on", { time: moment(section.endsAt) }),
  }[state] ?? t("ends-in", { span: spanText(section.endsAt - time) });
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
