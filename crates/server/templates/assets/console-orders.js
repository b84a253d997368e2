// Support: one order by its number, what became of it, and what can be done about it.
import { buttonsOf } from "./console-actions.js";
import { aged, byId, count, dayAndTime, elapsed, element, get, money, set, tiles } from "./console-words.js";

const ID = /^[0-9a-f]{40}$/;
const ORDER = "/api/v1/orders";

const left = ({ amount, refunded = 0 }) => amount - refunded;

// What is typed before anything is done to an order: as it is read aloud, or copied.
const typed = ({ order }) => ({
  what: order.number ? "the order's number" : "the order's id",
  text: order.number ?? order.id,
  alike: (text) => text.toUpperCase().replace(/[\s-]/g, ""),
});

// Each says what it will do. None can be undone, and each may be done twice without harm.
const ACTIONS = {
  cancel: {
    name: "Cancel",
    typed,
    offered: ({ order }) => order.status === "held",
    says: ({ order }) => `The order is cancelled for its buyer, and what it held is on sale again at once: ${count(order.quantity)}. This can't be undone.`,
    request: ({ order }) => ({ method: "POST", path: `${ORDER}/${order.id}/cancel` }),
    done: "Cancelled.",
  },
  refund: {
    name: "Note a refund",
    typed,
    offered: ({ order }) => order.status === "paid" && left(order) > 0,
    says: ({ order }) => `Notes that money of this order was given back: nothing is moved from here. Of ${money(order.amount, order.currency)}, ${money(left(order), order.currency)} were not refunded. The note can't be taken back.`,
    fields: ({ order }) => [
      { name: "reference", label: "Reference of the refund at your bank or provider", value: "", max: 255 },
      { name: "amount", label: `Amount, in the smallest unit of ${order.currency}`, min: "1", value: String(left(order)) },
      { name: "units", label: "Units that go back on sale", min: "0", value: "0" },
    ],
    request: ({ order }, values) => ({
      method: "POST",
      path: `${ORDER}/${order.id}/refund`,
      body: { refund_id: values.reference.now, amount: Number(values.amount.now), units: Number(values.units.now), made: true },
    }),
    done: "Noted.",
  },
};
const settle = {
  name: "Settle",
  typed,
  says: ({ order, payment }) => `Notes that ${money(payment.amount, order.currency)} of “${payment.payment_id}” were given back: nothing is moved from here. The note can't be taken back.`,
  request: ({ payment }) => ({
    method: "POST",
    path: `/api/v1/payments/${encodeURIComponent(payment.payment_id)}/settle`,
  }),
  done: "Settled.",
};

// By its number; an id leads to one, once the order is in the ledger.
const read = async (typed) => {
  if (!ID.test(typed)) return get(`/api/v1/support/orders/${encodeURIComponent(typed)}`);
  const order = await get(`${ORDER}/${typed}`);
  return order.number ? get(`/api/v1/support/orders/${order.number}`) : { order, life: [], more: false };
};

// Those are few, and their list is asked for where there is one of this order.
const refundsDue = async ({ id, refund_due: due }) => {
  if (!due) return [];
  const { payments } = await get("/api/v1/payments/refunds-due");
  return payments.filter((payment) => payment.order === id);
};

let latest = 0;

const find = async (typed) => {
  latest += 1;
  const asked = latest;
  const at = elapsed();
  set("order-problem", "");
  try {
    const found = await read(typed);
    const due = await refundsDue(found.order);
    if (asked === latest) show(found, due, at);
  } catch (error) {
    if (asked !== latest) return;
    byId("found-order").replaceChildren();
    set("order-problem", error.message);
  }
};

const buttons = (actions, subject) => {
  const after = () => find(subject.order.number ?? subject.order.id);
  return buttonsOf(actions.map(([call, action]) => [call, { ...action, after }]), "data-order-call", () => [subject]);
};

const show = ({ order, life, more }, due, at) => {
  aged("orders-title", at);
  const title = order.number ?? "No number yet";
  const facts = [
    ["Ordered", `${count(order.quantity)} of product ${order.product}, sale ${order.sale}: ${money(order.amount, order.currency)}`],
    ["Buyer", order.buyer],
    ...(order.status === "held" && order.pay_by_ms !== null ? [["To be paid by", dayAndTime(order.pay_by_ms)]] : []),
    ["Id", order.id],
  ];
  const step = ({ at_ms: at, what, payment_id: payment, amount, by, why: because }) => {
    const of = [what.replaceAll("_", " "), payment, amount !== undefined && money(amount, order.currency), by && `by ${by}`];
    return element("li", {}, `${dayAndTime(at)}: ${of.filter(Boolean).join(" ")}${because ? `: ${because}` : ""}`);
  };
  const actions = Object.entries(ACTIONS).filter(([, action]) => action.offered({ order }));
  const dues = due.map((payment) =>
    element("p", { class: "row" }, `${money(payment.amount, order.currency)} of ${payment.payment_id} are to be given back.`, ...buttons([["settle", settle]], { title, order, payment })),
  );
  const list = element("dl", { class: "health" });
  tiles(list, facts);
  byId("found-order").replaceChildren(
    element("h3", {}, `${title} `, element("span", { class: "state" }, order.status)),
    list,
    element("ol", {}, ...life.map(step), ...(more ? [element("li", {}, "More refunds follow.")] : [])),
    ...dues,
    element("p", { class: "row" }, ...buttons(actions, { title, order })),
  );
};

byId("find-order").addEventListener("submit", (event) => {
  event.preventDefault();
  find(byId("order-number").value.trim());
});
