/** The page of Doorbuster's `shop.pay_url`: checks the link, takes the payment once, reports it, and leads back. */
import { Body, Controller, Get, Inject, Post, Query, Res } from '@nestjs/common';
import { Allow, Ctx, CustomerService, Logger, Permission, RequestContext } from '@vendure/core';
import type { Response } from 'express';

import { DoorbusterClient } from './doorbuster.client.js';
import { SoldOrder } from './events.js';
import { DOORBUSTER_OPTIONS, DoorbusterOptions, LOG_CONTEXT } from './options.js';
import { DoorbusterOrders } from './orders.service.js';
import { messagePage, payPage } from './pay.page.js';
import { Refused } from './refused.js';
import { DoorbusterReporter } from './reporter.service.js';
import { PayLink, isPayLinkSigned } from './signing.js';

export const PAY_PATH = 'doorbuster/pay';

@Controller(PAY_PATH)
export class PayController {
  constructor(
    private readonly client: DoorbusterClient,
    private readonly customers: CustomerService,
    @Inject(DOORBUSTER_OPTIONS) private readonly options: DoorbusterOptions,
    private readonly orders: DoorbusterOrders,
    private readonly reporter: DoorbusterReporter,
  ) {}

  @Get()
  @Allow(Permission.Public)
  async show(@Ctx() ctx: RequestContext, @Query() query: Partial<PayLink>, @Res() response: Response): Promise<void> {
    await this.answer(response, async () => {
      const link = this.checked(query);
      const buyer = await this.buyerOf(ctx);
      if (buyer === undefined) {
        const here = `/${PAY_PATH}?${new URLSearchParams({ ...link })}`;
        response.redirect(303, this.options.signInUrl.replace('{return}', encodeURIComponent(here)));
        return;
      }
      response.send(payPage(link, await this.payable(buyer, link)));
    });
  }

  @Post()
  @Allow(Permission.Public)
  async pay(@Ctx() ctx: RequestContext, @Body() form: Partial<PayLink>, @Res() response: Response): Promise<void> {
    await this.answer(response, async () => {
      const link = this.checked(form);
      const buyer = await this.buyerOf(ctx);
      if (buyer === undefined) throw new Refused(401, 'Please sign in at the shop first.');
      await this.orders.pay(await this.payable(buyer, link));
      // What is not answered now is sent again later: the payment is taken, and stays noted.
      await this.reporter.send({ doorbusterId: link.order });
      response.redirect(303, link.back);
    });
  }

  private checked(given: Partial<PayLink>): PayLink {
    const part = (name: keyof PayLink): string => (typeof given[name] === 'string' ? given[name] : '');
    const link = { order: part('order'), amount: part('amount'), currency: part('currency'), back: part('back'), sig: part('sig') };
    if (isPayLinkSigned(this.options.paymentSecret, link)) return link;
    throw new Refused(403, 'This link is not the one that the sale made: please go back to your order, and press Pay there.');
  }

  private async buyerOf(ctx: RequestContext): Promise<string | undefined> {
    const customer = ctx.activeUserId && (await this.customers.findOneByUserId(ctx, ctx.activeUserId));
    return customer ? String(customer.id) : undefined;
  }

  /** The order as Doorbuster has it now: no money is taken for one that is over, another's, or of another amount. */
  private async payable(buyer: string, link: PayLink): Promise<SoldOrder> {
    const order = await this.client.orderOf(buyer, link.order);
    if (!order) throw new Refused(404, 'You have no such order. Were you signed in as somebody else when you ordered?');
    if (String(order.amount) !== link.amount || order.currency !== link.currency) {
      throw new Refused(409, 'The order has another amount than this link. Nothing was taken.');
    }
    if (order.status === 'paid') throw new Refused(409, 'This order is paid already. Nothing was taken.');
    if (order.status !== 'held') throw new Refused(409, `This order is ${order.status}: it can't be paid any more. Nothing was taken.`);
    return order;
  }

  private async answer(response: Response, work: () => Promise<void>): Promise<void> {
    response.set('Cache-Control', 'no-store');
    try {
      await work();
    } catch (error) {
      if (error instanceof Refused) {
        response.status(error.status).send(messagePage(error.message));
        return;
      }
      Logger.error(`a payment page failed: ${error instanceof Error ? error.stack : String(error)}`, LOG_CONTEXT);
      response.status(500).send(messagePage('Something went wrong here. Whether you have paid shows on your order.'));
    }
  }
}
