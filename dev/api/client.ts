// A generated client at work: places, reads, pays and cancels orders, and reads what is refused.
import { Configuration, OrdersApi, ResponseError, SalesApi } from "./index";

declare const process: { argv: string[]; exit(code: number): void };

const sale = 3, product = 29;

async function main(basePath: string) {
  const configuration = new Configuration({ basePath, headers: { memberId: "4002" } });
  const orders = new OrdersApi(configuration);
  const list = await new SalesApi(configuration).listSales({ limit: 50 });
  assert(list.sales.length > 0, "there are sales");
  const place = async () => {
    const order = await orders.placeOrder({ orderRequest: { sale, product } });
    assert(order.status === "held" && order.closedAtMs === null, "it is held");
    return order;
  };
  const read = await orders.getOrder({ id: (await place()).id });
  assert(read.product === product && read.payByMs !== null && read.payByMs > read.placedAtMs, "it is to be paid");
  const paid = await orders.payDemoOrder({ id: read.id });
  assert(paid.status === "paid" && paid.closedAtMs !== null, "it is paid");
  const cancelled = await orders.cancelOrder({ id: (await place()).id });
  assert(cancelled.status === "cancelled", "it is cancelled");
  try {
    await orders.cancelOrder({ id: paid.id });
    assert(false, "what is paid is not cancelled");
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error;
    const problem = await error.response.json();
    assert(error.response.status === 409 && problem.code === "not_cancellable", "the problem has its code");
  }
}

function assert(holds: boolean, what: string) {
  if (!holds) throw new Error(`not so: ${what}`);
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
