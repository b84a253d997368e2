/**
 * Makes Vendure's orders what Doorbuster says, each step once: one transaction locks the order's row, passes over what is
 * known, changes the Vendure order, and notes how far it came. An order stays a draft until it is paid, so it is never the
 * customer's cart.
 */
import { Injectable } from '@nestjs/common';
import {
  ConfigService,
  CurrencyCode,
  CustomerService,
  ID,
  Order,
  OrderService,
  ProductVariant,
  RequestContext,
  RequestContextService,
  TransactionalConnection,
  isGraphQlErrorResult,
} from '@vendure/core';

import { DoorbusterOrder, DoorbusterReport } from './entities.js';
import { DoorbusterEvent, RefundDue, SoldOrder } from './events.js';
import { DoorbusterMethods, METHOD_CODE } from './methods.js';
import { Refused } from './refused.js';
import { Turns } from './turns.js';

@Injectable()
export class DoorbusterOrders {
  private readonly turns = new Turns();

  constructor(
    private readonly config: ConfigService,
    private readonly connection: TransactionalConnection,
    private readonly contexts: RequestContextService,
    private readonly customers: CustomerService,
    private readonly methods: DoorbusterMethods,
    private readonly orders: OrderService,
  ) {}

  /** Carries out one event. Returning means that it is done, or was before, durably. */
  async hear(event: DoorbusterEvent): Promise<void> {
    if (event.type === 'other') return;
    const id = event.type === 'order' ? event.order.id : event.type === 'rejected' ? event.order : event.refund.order;
    await this.locked(id, currencyOf(event), async (ctx, row) => {
      if (event.sequence <= row.sequence) return;
      if (event.type === 'order') await this.follow(ctx, row, event.order);
      else if (event.type === 'refund.due') await this.payBack(ctx, row, event.refund);
      else await this.close(ctx, row, 'rejected');
      row.sequence = event.sequence;
    });
  }

  /** Takes the payment of an order that is held at Doorbuster, and notes its report. Again: nothing. */
  async pay(sold: SoldOrder): Promise<void> {
    await this.locked(sold.id, sold.currency, async (ctx, row) => {
      const order = await this.ensure(ctx, row, sold);
      if (isPaid(order)) return;
      const payment = settledPayment(await this.settle(ctx, order));
      if (payment.amount !== sold.amount) throw new Refused(409, `the order is ${sold.amount}, the shop's is ${payment.amount}`);
      await this.report(ctx, 'payment', payment.transactionId, sold);
    });
  }

  private async follow(ctx: RequestContext, row: DoorbusterOrder, sold: SoldOrder): Promise<void> {
    const order = await this.ensure(ctx, row, sold);
    switch (sold.status) {
      case 'held':
        break;
      case 'paid':
        // Settled once: what an administrator does with it afterwards stays.
        if (row.status !== 'paid' && !isPaid(order)) await this.settle(ctx, order);
        break;
      case 'refunded':
        await this.refund(ctx, order, sold.amount, 'refunded');
        await this.cancel(ctx, order);
        break;
      default:
        // One that is paid here is being reported: Doorbuster's answer is `paid`, or a refund that is due.
        if (!isPaid(order)) await this.cancel(ctx, order);
    }
    row.status = sold.status;
  }

  /** A refund that support asked for, or a payment of ours that came too late. What others took is not ours to pay back. */
  private async payBack(ctx: RequestContext, row: DoorbusterOrder, due: RefundDue): Promise<void> {
    const order = await this.load(ctx, row.orderCode);
    if (!order) return;
    const isRequested = due.reason === 'requested';
    const isOurs = order.payments.some((payment) => payment.transactionId === due.id);
    if (!isRequested && !isOurs) return;
    await this.refund(ctx, order, due.amount, due.id);
    if (!isRequested) await this.cancel(ctx, order);
    await this.report(ctx, 'refund', due.id, { id: due.order, amount: due.amount, currency: due.currency });
  }

  private async close(ctx: RequestContext, row: DoorbusterOrder, status: string): Promise<void> {
    const order = await this.load(ctx, row.orderCode);
    if (order && !isPaid(order)) await this.cancel(ctx, order);
    row.status = status;
  }

  /** The Vendure order, made if there is none, and addressed. A cancelled one that was paid late after all gets a successor. */
  private async ensure(ctx: RequestContext, row: DoorbusterOrder, sold: SoldOrder): Promise<Order> {
    let order = await this.load(ctx, row.orderCode);
    const isPaidLate = order?.state === 'Cancelled' && sold.status === 'paid' && row.status !== 'paid';
    if (!order || isPaidLate) {
      row.orderCode = await this.make(ctx, sold);
      row.amount = sold.amount;
      order = await this.loaded(ctx, row.orderCode);
    }
    await this.address(ctx, order, sold);
    return order;
  }

  /** The address may come after the order, whatever its state is by then. One that the order has stays, whoever gave it. */
  private async address(ctx: RequestContext, order: Order, sold: SoldOrder): Promise<void> {
    if (Object.values(order.shippingAddress ?? {}).some(Boolean)) return;
    const given = shippingAddress(sold);
    if (!Object.values(given).some(Boolean)) return;
    // Vendure's own way wants the country's code, and prices the order anew.
    await this.connection.getRepository(ctx, Order).update(order.id, { shippingAddress: given });
  }

  private async load(ctx: RequestContext, code: string): Promise<Order | undefined> {
    return code === '' ? undefined : this.orders.findOneByCode(ctx, code, ['lines', 'payments', 'payments.refunds']);
  }

  private async loaded(ctx: RequestContext, code: string): Promise<Order> {
    const order = await this.load(ctx, code);
    if (!order) throw new Refused(503, `the order ${code} is gone`);
    return order;
  }

  /** Its code. */
  private async make(ctx: RequestContext, sold: SoldOrder): Promise<string> {
    const variant = await this.variantOf(ctx, sold);
    const customer = this.isId(sold.buyer) && (await this.customers.findOne(ctx, sold.buyer));
    if (!customer) throw new Refused(422, `there is no customer ${sold.buyer}, who bought the order ${sold.id}`);
    const { id } = await this.orders.createDraft(ctx);
    await this.orders.addCustomerToOrder(ctx, id, customer);
    const priced = { doorbusterUnitPrice: sold.unitPrice };
    done(await this.orders.addItemToOrder(ctx, id, variant.id, sold.quantity, priced), variant.sku);
    const order = done(await this.orders.setShippingMethod(ctx, id, [await this.methods.shippingMethodId(ctx)]), variant.sku);
    await this.charge(ctx, order, sold);
    return order.code;
  }

  /** Promotions and taxes of the shop change nothing of what Doorbuster asked for. */
  private async charge(ctx: RequestContext, order: Order, sold: SoldOrder): Promise<void> {
    const difference = sold.amount - order.totalWithTax;
    if (difference === 0) return;
    const surcharge = { description: 'As sold by Doorbuster', listPrice: difference, listPriceIncludesTax: true };
    const charged = await this.orders.addSurchargeToOrder(ctx, order.id, surcharge);
    if (charged.totalWithTax !== sold.amount) {
      throw new Refused(422, `the order ${sold.id} is ${sold.amount}, and comes to ${charged.totalWithTax} here`);
    }
  }

  private async variantOf(ctx: RequestContext, { sale, product }: SoldOrder): Promise<ProductVariant> {
    const variants = await this.connection.getRepository(ctx, ProductVariant).find({
      where: { customFields: { doorbusterSale: sale, doorbusterProduct: product } },
    });
    const [variant, other] = variants.filter(({ deletedAt }) => !deletedAt);
    if (!variant) throw new Refused(422, `no variant has the numbers of sale ${sale}, product ${product}`);
    if (other) throw new Refused(422, `${variant.sku} and ${other.sku} both have the numbers of sale ${sale}, product ${product}`);
    return variant;
  }

  /** Databases with typed columns fail on anything else. */
  private isId(text: string): boolean {
    const isUuid = this.config.entityOptions.entityIdStrategy?.primaryKeyType === 'uuid';
    return (isUuid ? /^[0-9a-f-]{36}$/i : /^[0-9]{1,18}$/).test(text);
  }

  private async settle(ctx: RequestContext, order: Order): Promise<Order> {
    done(await this.orders.transitionToState(ctx, order.id, 'ArrangingPayment'), order.code);
    done(await this.orders.addPaymentToOrder(ctx, order.id, { method: METHOD_CODE, metadata: {} }), order.code);
    return this.loaded(ctx, order.code);
  }

  /** So much, or what is left of the payment. */
  private async refund(ctx: RequestContext, order: Order, wanted: number, reason: string): Promise<void> {
    const payment = order.payments.find(({ state }) => state === 'Settled');
    if (!payment) return;
    const refunds = payment.refunds.filter(({ state }) => state !== 'Failed');
    // `refunded` is said once all of it went back, of which we have paid some.
    const left = payment.amount - refunds.reduce((sum, { total }) => sum + total, 0);
    const amount = Math.min(wanted, left);
    if (amount <= 0) return;
    const input = { paymentId: payment.id, amount, reason, lines: [], shipping: 0, adjustment: 0 };
    done(await this.orders.refundOrder(ctx, input), order.code);
  }

  private async cancel(ctx: RequestContext, order: Order): Promise<void> {
    if (order.state === 'Cancelled') return;
    done(await this.orders.cancelOrder(ctx, { orderId: order.id, reason: 'Doorbuster', cancelShipping: true }), order.code);
  }

  private async report(
    ctx: RequestContext,
    kind: 'payment' | 'refund',
    reportId: string,
    { id, amount, currency }: { id: string; amount: number; currency: string },
  ): Promise<void> {
    const report = new DoorbusterReport({ kind, reportId, doorbusterId: id, amount, currency });
    await this.connection.getRepository(ctx, DoorbusterReport).save(report);
  }

  /** Does the work in a transaction that nobody else can have on this order, and keeps the row. */
  private async locked(
    id: string,
    currency: string | undefined,
    work: (ctx: RequestContext, row: DoorbusterOrder) => Promise<void>,
  ): Promise<void> {
    const ctx = await this.contextOf(currency);
    await this.turns.take(() =>
      this.connection.withTransaction(ctx, async (inside) => {
        const rows = this.connection.getRepository(inside, DoorbusterOrder);
        await rows.createQueryBuilder().insert().values({ doorbusterId: id }).orIgnore().updateEntity(false).execute();
        // An update locks the row in any database that has locks.
        await rows.update({ doorbusterId: id }, { doorbusterId: id });
        const row = await rows.findOneByOrFail({ doorbusterId: id });
        await work(inside, row);
        await rows.save(row);
      }),
    );
  }

  private async contextOf(currency: string | undefined): Promise<RequestContext> {
    const ctx = await this.contexts.create({ apiType: 'admin' });
    if (currency === undefined || currency === ctx.currencyCode) return ctx;
    if (!ctx.channel.availableCurrencyCodes.includes(currency as CurrencyCode)) {
      throw new Refused(422, `the shop's channel does not sell in ${currency}`);
    }
    return this.contexts.create({ apiType: 'admin', currencyCode: currency as CurrencyCode });
  }
}

function currencyOf(event: DoorbusterEvent): string | undefined {
  if (event.type === 'order') return event.order.currency;
  return event.type === 'refund.due' ? event.refund.currency : undefined;
}

/** Whether its payment was taken, whatever became of it later. */
function isPaid(order: Order): boolean {
  return order.payments.some(({ state }) => state === 'Settled');
}

function settledPayment(order: Order): { id: ID; amount: number; transactionId: string } {
  const payment = order.payments.find(({ state }) => state === 'Settled');
  if (!payment) throw new Refused(503, `the payment of ${order.code} was not taken`);
  return payment;
}

function shippingAddress({ address }: SoldOrder): Order['shippingAddress'] {
  return {
    fullName: address['name'],
    streetLine1: address['detail'],
    streetLine2: address['district'],
    city: address['city'],
    province: address['province'],
    postalCode: address['post_code'],
    country: address['country'],
    phoneNumber: address['phone'],
  };
}

/** Vendure answers with errors as values. */
function done<R, E extends { message?: string }>(result: R | E, what: string): Exclude<R, E> {
  if (isGraphQlErrorResult(result as never)) throw new Refused(422, `${what}: ${described(result)}`);
  return result as Exclude<R, E>;
}

function described(error: unknown): string {
  const { message, transitionError } = error as { message?: string; transitionError?: string };
  return [message, transitionError].filter(Boolean).join(': ');
}

