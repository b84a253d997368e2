// Who tries most to order an item: asked for only while somebody looks, by those who may know buyers by name.
import { aged, byId, call, count, element, night, reason, rowOf, set, tableOf } from "./console-words.js";

const EVERY_MS = 5000;
// Other servers have not reported yet what they counted.
const MISSING_MS = 1000;
const COLUMNS = [
  ["Attempts", "attempts"],
  ["Accepted", "accepted"],
  ["Repeated", "replayed"],
  ["Closed", "refused_closed"],
  ["No stock", "refused_stock"],
  ["Limit", "refused_limit"],
  ["Invalid", "refused_invalid"],
  ["Busy", "busy"],
  ["Unknown", "unknown"],
];

const panel = byId("attempts-open");
const of = byId("attempts-of");
const time = byId("attempts-time");
let timer = 0;
let asks = 0;
let offered = "";
let shownOf = "";

// The choice stays when others come and go.
const offerItems = () => {
  const items = night.figures.sales.flatMap((sale) => sale.items.map((item) => [`${sale.id}/items/${item.product}`, `${item.title}, sale ${sale.id}`]));
  const wanted = JSON.stringify(items);
  if (wanted === offered) return;
  offered = wanted;
  const chosen = of.value;
  of.replaceChildren(...items.map(([value, text]) => element("option", { value }, text)));
  if (items.some(([value]) => value === chosen)) of.value = chosen;
};

const table = (whose, tried) => {
  const row = (one) => {
    const times = ([head, key]) => element("td", { class: "number", "data-head": head }, key === "attempts" && one.missed_max > 0 ? `${count(one.attempts)} to ${count(one.attempts + one.missed_max)}` : count(one[key]));
    return rowOf([element("td", {}, one.who), ...COLUMNS.map(times)]);
  };
  return tableOf(`${whose} with the most attempts`, [[whose, ""], ...COLUMNS.map(([text]) => [text, "number"])], tried.map(row));
};

const show = (lists, { servers, servers_missing: missing }) => {
  aged("attempts-title");
  const whose = missing > 0 ? `Of ${servers} of ${servers + missing} servers, the others have not reported.` : servers > 1 ? `Of all ${servers} servers.` : "";
  const { buyers, addresses } = lists;
  set("attempts-says", buyers.length > 0 ? `${whose} Many buyers behind one address may be a company's or a carrier's.` : "Nobody tried.");
  byId("attempts-tables").replaceChildren(...(buyers.length > 0 ? [table("Buyer", buyers), table("Address", addresses)] : []));
};

const read = async () => {
  clearTimeout(timer);
  asks += 1;
  const asked = asks;
  if (!panel.open || night.figures === null) return;
  offerItems();
  const wanted = of.value + time.value;
  if (wanted !== shownOf) {
    // What stands there is of something else.
    shownOf = wanted;
    set("attempts-says", "");
    byId("attempts-tables").replaceChildren();
  }
  let wait = EVERY_MS;
  if (of.value !== "" && !document.hidden) {
    let problem = "";
    try {
      const answer = await call(`/api/v1/sales/${of.value}/attempts`);
      if (!answer.ok) problem = await reason(answer);
      else {
        const found = await answer.json();
        if (asked === asks) show(found[time.value], found);
        if (found.servers_missing > 0) wait = MISSING_MS;
      }
    } catch {
      problem = "The server can't be reached: what stands here is out of date.";
    }
    if (asked !== asks) return;
    set("attempts-problem", problem);
  }
  timer = setTimeout(read, wait);
};

panel.addEventListener("toggle", read);
of.addEventListener("change", read);
time.addEventListener("change", read);
