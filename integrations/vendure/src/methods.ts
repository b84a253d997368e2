/** How an order of Doorbuster is paid and shipped in Vendure: methods of its own, which no other order can take. */
import { Injectable } from '@nestjs/common';
import {
  LanguageCode,
  PaymentMethodEligibilityChecker,
  PaymentMethodHandler,
  PaymentMethodService,
  RequestContext,
  ShippingCalculator,
  ShippingEligibilityChecker,
  ShippingMethodService,
  manualFulfillmentHandler,
} from '@vendure/core';

import { isDoorbusterOrder } from './selling.js';

/** Of the payment method and the shipping method alike. */
export const METHOD_CODE = 'doorbuster';

const english = (value: string) => [{ languageCode: LanguageCode.en, value }];
const ONLY_DOORBUSTERS = 'For orders of Doorbuster alone.';

/**
 * Takes test payments: everything that is asked for is paid, and comes back when it is refunded. A shop calls its payment
 * provider here instead; `transactionId` is then the provider's, and Doorbuster keeps payments apart by it.
 */
export const testPayments = new PaymentMethodHandler({
  code: 'doorbuster-test-payments',
  description: english('Doorbuster: test payments'),
  args: {},
  createPayment: (ctx, order, amount) =>
    ctx.apiType === 'admin'
      ? { amount, state: 'Settled' as const, transactionId: `vendure-${order.code}` }
      : { amount, state: 'Declined' as const, errorMessage: ONLY_DOORBUSTERS },
  settlePayment: () => ({ success: true }),
  createRefund: (_ctx, _input, amount, order) => ({
    state: 'Settled' as const,
    transactionId: `vendure-refund-${order.code}-${amount}`,
  }),
});

export const paymentChecker = new PaymentMethodEligibilityChecker({
  code: 'doorbuster-orders-payment',
  description: english(ONLY_DOORBUSTERS),
  args: {},
  check: (_ctx, order) => isDoorbusterOrder(order) || ONLY_DOORBUSTERS,
});

export const shippingChecker = new ShippingEligibilityChecker({
  code: 'doorbuster-orders-shipping',
  description: english(ONLY_DOORBUSTERS),
  args: {},
  check: (_ctx, order) => isDoorbusterOrder(order),
});

/** What Doorbuster asks for an order is all of it. */
export const shippingCalculator = new ShippingCalculator({
  code: 'doorbuster-shipping-included',
  description: english('Doorbuster: shipping is in the price'),
  args: {},
  calculate: () => ({ price: 0, taxRate: 0, priceIncludesTax: true }),
});

@Injectable()
export class DoorbusterMethods {
  constructor(
    private readonly payments: PaymentMethodService,
    private readonly shipping: ShippingMethodService,
  ) {}

  /** Makes the methods where a shop does not have them yet. */
  async ensure(ctx: RequestContext): Promise<void> {
    const named = { filter: { code: { eq: METHOD_CODE } } };
    const translations = [{ languageCode: LanguageCode.en, name: 'Doorbuster', description: ONLY_DOORBUSTERS }];
    const operation = (code: string) => ({ code, arguments: [] });
    if ((await this.payments.findAll(ctx, named)).totalItems === 0) {
      await this.payments.create(ctx, {
        code: METHOD_CODE,
        enabled: true,
        handler: operation(testPayments.code),
        checker: operation(paymentChecker.code),
        translations,
      });
    }
    if ((await this.shipping.findAll(ctx, named)).totalItems === 0) {
      await this.shipping.create(ctx, {
        code: METHOD_CODE,
        fulfillmentHandler: manualFulfillmentHandler.code,
        checker: operation(shippingChecker.code),
        calculator: operation(shippingCalculator.code),
        translations,
      });
    }
  }

  async shippingMethodId(ctx: RequestContext) {
    const [method] = (await this.shipping.findAll(ctx, { filter: { code: { eq: METHOD_CODE } } })).items;
    if (!method) throw new Error(`the shipping method ${METHOD_CODE} is gone: restart the shop, which makes it again`);
    return method.id;
  }
}
