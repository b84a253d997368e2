/** Keeps Doorbuster's variants out of the shop's own checkout, and lets its orders have its prices. */
import {
  Injector,
  Order,
  OrderInterceptor,
  OrderItemPriceCalculationStrategy,
  OrderProcess,
  PriceCalculationResult,
  ProductVariant,
  RequestContext,
  WillAddItemToOrderInput,
  WillAdjustOrderLineInput,
} from '@vendure/core';

import { isDoorbusters, isSoldByDoorbuster } from './custom-fields.js';

export const SOLD_ELSEWHERE = 'This item is sold in a flash sale alone: follow its link to the sale.';

/** Administrators may (and the plugin, which acts as one): theirs are no orders of customers. */
const mayOrder = (ctx: RequestContext): boolean => ctx.apiType === 'admin';

export class DoorbusterInterceptor implements OrderInterceptor {
  willAddItemToOrder(ctx: RequestContext, _order: Order, input: WillAddItemToOrderInput): string | undefined {
    return !mayOrder(ctx) && isDoorbusters(input.productVariant) ? SOLD_ELSEWHERE : undefined;
  }

  willAdjustOrderLine(ctx: RequestContext, _order: Order, input: WillAdjustOrderLineInput): string | undefined {
    return !mayOrder(ctx) && isDoorbusters(input.orderLine.productVariant) ? SOLD_ELSEWHERE : undefined;
  }
}

/** A cart that had the variant before it became Doorbuster's can't be bought either. */
export const doorbusterProcess: OrderProcess<string> = {
  onTransitionStart(_from, to, { ctx, order }) {
    const stops = to === 'ArrangingPayment' && !mayOrder(ctx);
    return stops && order.lines.some((line) => isDoorbusters(line.productVariant)) ? SOLD_ELSEWHERE : undefined;
  },
};

/** Doorbuster's price where it sold, the shop's own strategy elsewhere. */
export class DoorbusterPrices implements OrderItemPriceCalculationStrategy {
  constructor(private readonly otherwise: OrderItemPriceCalculationStrategy) {}

  async init(injector: Injector): Promise<void> {
    await this.otherwise.init?.(injector);
  }

  async destroy(): Promise<void> {
    await this.otherwise.destroy?.();
  }

  calculateUnitPrice(
    ctx: RequestContext,
    variant: ProductVariant,
    fields: { doorbusterUnitPrice?: number | null },
    order: Order,
    quantity: number,
  ): PriceCalculationResult | Promise<PriceCalculationResult> {
    const price = fields.doorbusterUnitPrice;
    if (price !== undefined && price !== null) return { price, priceIncludesTax: true };
    return this.otherwise.calculateUnitPrice(ctx, variant, fields, order, quantity);
  }
}

/** Whether the plugin made it. */
export function isDoorbusterOrder(order: Order): boolean {
  return order.lines.length > 0 && order.lines.every(isSoldByDoorbuster);
}
