// Sales that an operator makes here: one like another, or one of a single item; whole drops are made of a file, in a terminal.
import { slips } from "./console-slips.js";
import { TOO_LARGE, duration, get, localTime, money, night, serverNow, unitsOf, unixTime } from "./console-words.js";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

// The number is chosen before the press: pressing again makes the same sale, and no second one. Beside it stands the largest item.
let largest = null;
const nextId = async () => {
  const { next_id: id, largest_total: total = null } = await get("/api/v1/sales?limit=1");
  largest = total;
  return id;
};

// All pages of it.
const whole = async (id) => {
  const path = `/api/v1/sales/${id}?limit=200`;
  const sale = await get(path);
  for (let cursor = sale.items_next_cursor; cursor !== null; ) {
    const page = await get(`${path}&cursor=${cursor}`);
    sale.items.push(...page.items);
    cursor = page.items_next_cursor;
  }
  return sale;
};

const times = (startsAt, length) => [
  { name: "starts_at_ms", label: "Starts at", type: "datetime-local", value: localTime(startsAt) },
  { name: "ends_at_ms", label: "Ends at", type: "datetime-local", value: localTime(startsAt + length) },
];

/** What the times come to that are typed. */
export const runs = (_, { starts_at_ms: from, ends_at_ms: to }) => {
  const [now, starts, ends] = [serverNow(), unixTime(from?.now), unixTime(to.now)];
  if (!from) return ends ? `Ends in ${duration(ends - now)}.` : "";
  return starts && ends ? `Starts in ${duration(starts - now)}, lasts ${duration(ends - starts)}.` : "";
};

const post = (body) => {
  if (!body.items.every((item) => Number.isSafeInteger(item.product))) return { problem: TOO_LARGE };
  const { starts_at_ms, ends_at_ms, payment_s, items } = body;
  const odd = slips({ starts_at_ms, length_ms: ends_at_ms - starts_at_ms, payment_s, items: items.map(({ product, price, total, line }) => ({ product, price, units: total, line })), largest });
  return { method: "POST", path: "/api/v1/sales", body, odd };
};

// Somebody else's sale has the number, or an earlier press that was not heard of made it.
const refused = async ({ code }, press) => {
  if (code !== "sale_exists") return null;
  const taken = press.key;
  press.key = await nextId();
  return `No. ${taken} was made in the meantime, by somebody else or by an earlier press: look at it first. Pressing again makes no. ${press.key}.`;
};

// By its number, the sale that another is made like.
const likes = {};

export const duplicate = {
  name: "Duplicate",
  says: (sale) => `Another sale of the items of “${sale.title}”, on the terms that they have now, and with their whole totals. Times are yours, to the second.`,
  fields: async (sale) => {
    const like = await whole(sale.id);
    likes[sale.id] = like;
    if (!like.items.every((item) => Number.isSafeInteger(item.product))) throw new Error(TOO_LARGE);
    const length = sale.ends_at_ms - sale.starts_at_ms;
    return [{ name: "title", label: "Title", value: sale.title }, ...times(Math.max(serverNow(), sale.starts_at_ms) + DAY_MS, length)];
  },
  sum: runs,
  key: nextId,
  request: (sale, values, _, id) => {
    const like = likes[sale.id];
    const item = ({ product, title, description, price, list_price, total, limit, image, line }) => ({
      product,
      title,
      description,
      price,
      list_price,
      total,
      limit,
      image: image && { name: image.name, alt: image.alt },
      line: line && { units: line.units, turn_s: line.turn_s, grace_s: line.grace_s, close_s: line.close_s, beacon: line.beacon, access: line.access },
    });
    return post({
      id,
      title: values.title.now,
      currency: like.currency,
      starts_at_ms: unixTime(values.starts_at_ms.now),
      ends_at_ms: unixTime(values.ends_at_ms.now),
      payment_s: like.payment_s,
      open_holds_per_buyer_max: like.open_holds_per_buyer_max ?? 0,
      items: like.items.map(item),
    });
  },
  refused,
  done: "Made.",
};

export const create = {
  name: "New sale",
  says: () => "A sale of one item. One of several, with images, or kept in git, is made of a file: doorbuster sale create drop.toml. Times are yours, to the second.",
  sum: (_, values) => `${runs(_, values)}${values.total.now && ` ${unitsOf(Number(values.total.now))} at ${money(values.price.now, values.currency.now)}.`}`,
  fields: async () => {
    const { payment_default_s: payment = 900 } = await get("/api/v1/sales?limit=1");
    return [
      { name: "title", label: "Title", value: "" },
      ...times(serverNow() + DAY_MS, 2 * HOUR_MS),
      { name: "payment_s", label: "Seconds to pay; empty: paid on placing", min: "1", value: String(payment), optional: true },
      { name: "product", label: "Product, the shop's number", min: "0", value: "" },
      { name: "item", label: "Its title", value: "" },
      { name: "price", label: "Price, in the smallest unit of the currency", min: "0", value: "" },
      { name: "currency", label: "Currency", value: night.figures.sales[0]?.currency ?? "EUR", max: "3" },
      { name: "total", label: "Units", min: "1", value: "" },
      { name: "limit", label: "Units per buyer; empty: no limit", min: "1", value: "1", optional: true },
    ];
  },
  key: nextId,
  request: (_, values, __, id) => {
    const number = (name) => Number(values[name].now);
    const price = number("price");
    const item = { product: number("product"), title: values.item.now, price, list_price: price, total: number("total"), limit: values.limit.now === "" ? null : number("limit") };
    return post({
      id,
      title: values.title.now,
      currency: values.currency.now,
      starts_at_ms: unixTime(values.starts_at_ms.now),
      ends_at_ms: unixTime(values.ends_at_ms.now),
      payment_s: values.payment_s.now === "" ? null : number("payment_s"),
      items: [item],
    });
  },
  refused,
  done: "Made.",
};
