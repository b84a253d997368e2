// The orders that this buyer has placed in this browser, the latest first, each as the server has it now.

import { NoAnswer, moment, money } from "./common.js";
import {
  byId, call, closeSession, isSignedIn, myOrders, openSession, orderPath, say, signInLink,
} from "./shop.js";
import { t } from "./texts.js";

const BADGES = {
  held: "held", pending: "pending", paid: "paid", cancelled: "cancelled", expired: "expired", refunded: "refunded",
  rejected: "rejected",
};

/** One line of the list; `order` is null while, or if, the server does not say. */
function line({ id, title, at }, order) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = orderPath(id);
  link.textContent = title;
  const facts = document.createElement("p");
  facts.className = "hint";
  facts.textContent = [order?.number && t("order-short", { number: order.number }), moment(order?.placed_at_ms ?? at), order && money(order.amount, order.currency)]
    .filter(Boolean).join(" · ");
  item.append(link, facts);
  if (order) {
    const badge = document.createElement("p");
    badge.className = "badge";
    const status = BADGES[order.status] ? t(BADGES[order.status]) : order.status;
    badge.textContent = order.refund_due ? t("refund-due", { status }) : status;
    item.dataset.view = order.status;
    item.append(badge);
  }
  return item;
}

async function read({ id }) {
  try {
    await openSession();
    return await call("GET", `/api/v1/orders/${encodeURIComponent(id)}`);
  } catch (error) {
    if (error.status === 401 && closeSession()) return read({ id });
    throw error;
  }
}

async function show() {
  const orders = myOrders();
  byId("list").replaceChildren(...orders.map((order) => line(order, null)));
  byId("orders").dataset.view = orders.length > 0 ? "some" : "none";
  if (orders.length === 0) return say(byId("outcome"), t("no-orders"));
  if (!isSignedIn()) {
    say(byId("outcome"), t("sign-in-to-list"));
    return byId("outcome").append(...signInLink());
  }
  for (const [place, order] of orders.entries()) {
    try {
      byId("list").children[place].replaceWith(line(order, await read(order)));
    } catch (error) {
      // Of one that is not found, what this browser remembers is all there is to say.
      if (error.status === 404) continue;
      say(byId("outcome"), error instanceof NoAnswer ? t("standing-not-known") : error.message);
      if (error.status === 401) byId("outcome").append(...signInLink());
      return;
    }
  }
  byId("orders").dataset.view = "read";
}

show();
