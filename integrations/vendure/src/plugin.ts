/** Sells variants of this shop by Doorbuster. README.md says how to put it in. */
import { OnApplicationBootstrap } from '@nestjs/common';
import { PluginCommonModule, RequestContextService, RuntimeVendureConfig, Type, VendurePlugin } from '@vendure/core';
import { raw } from 'express';

import { customFields } from './custom-fields.js';
import { DoorbusterClient } from './doorbuster.client.js';
import { DoorbusterOrder, DoorbusterReport } from './entities.js';
import { HandOverResolver, handOverSchema } from './handover.resolver.js';
import { HOOKS_PATH, HooksController } from './hooks.controller.js';
import { DoorbusterMethods, paymentChecker, shippingCalculator, shippingChecker, testPayments } from './methods.js';
import { DOORBUSTER_OPTIONS, DoorbusterOptions } from './options.js';
import { DoorbusterOrders } from './orders.service.js';
import { PayController } from './pay.controller.js';
import { DoorbusterReporter } from './reporter.service.js';
import { DoorbusterInterceptor, DoorbusterPrices, doorbusterProcess } from './selling.js';

/** A list of 100 events of orders with addresses. */
const HOOK_BYTES_MAX = '1mb';

@VendurePlugin({
  compatibility: '^3.0.0',
  imports: [PluginCommonModule],
  entities: [DoorbusterOrder, DoorbusterReport],
  controllers: [HooksController, PayController],
  providers: [
    { provide: DOORBUSTER_OPTIONS, useFactory: () => DoorbusterPlugin.options },
    DoorbusterClient,
    DoorbusterMethods,
    DoorbusterOrders,
    DoorbusterReporter,
  ],
  shopApiExtensions: { schema: handOverSchema, resolvers: [HandOverResolver] },
  configuration: configure,
})
export class DoorbusterPlugin implements OnApplicationBootstrap {
  static options: DoorbusterOptions;

  constructor(
    private readonly contexts: RequestContextService,
    private readonly methods: DoorbusterMethods,
  ) {}

  static init(options: DoorbusterOptions): Type<DoorbusterPlugin> {
    DoorbusterPlugin.options = options;
    return DoorbusterPlugin;
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.methods.ensure(await this.contexts.create({ apiType: 'admin' }));
  }
}

function configure(config: RuntimeVendureConfig): RuntimeVendureConfig {
  for (const [entity, fields] of Object.entries(customFields)) {
    const name = entity as 'ProductVariant' | 'OrderLine';
    config.customFields[name] = [...(config.customFields[name] ?? []), ...fields];
  }
  const { orderOptions, paymentOptions, shippingOptions } = config;
  orderOptions.orderInterceptors = [...orderOptions.orderInterceptors, new DoorbusterInterceptor()];
  orderOptions.process = [...orderOptions.process, doorbusterProcess];
  orderOptions.orderItemPriceCalculationStrategy = new DoorbusterPrices(orderOptions.orderItemPriceCalculationStrategy);
  paymentOptions.paymentMethodHandlers = [...paymentOptions.paymentMethodHandlers, testPayments];
  paymentOptions.paymentMethodEligibilityCheckers = [...(paymentOptions.paymentMethodEligibilityCheckers ?? []), paymentChecker];
  shippingOptions.shippingEligibilityCheckers = [...(shippingOptions.shippingEligibilityCheckers ?? []), shippingChecker];
  shippingOptions.shippingCalculators = [...(shippingOptions.shippingCalculators ?? []), shippingCalculator];
  const handler = raw({ type: () => true, limit: HOOK_BYTES_MAX });
  config.apiOptions.middleware.push({ route: `/${HOOKS_PATH}`, handler, beforeListen: true });
  return config;
}
