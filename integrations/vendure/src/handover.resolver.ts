/** The query with which a storefront leads a signed-in customer to Doorbuster. */
import { Inject } from '@nestjs/common';
import { Args, Query, Resolver } from '@nestjs/graphql';
import {
  Allow,
  Ctx,
  CustomerService,
  ForbiddenError,
  ID,
  Permission,
  ProductVariantService,
  RequestContext,
  UserInputError,
} from '@vendure/core';
import gql from 'graphql-tag';

import { numbersOf } from './custom-fields.js';
import { DoorbusterClient } from './doorbuster.client.js';
import { DOORBUSTER_OPTIONS, DoorbusterOptions } from './options.js';

export const handOverSchema = gql`
  "A form that leads the customer to the sale, signed in: POST token and to, as hidden fields, to action."
  type DoorbusterHandOver {
    action: String!
    token: String!
    to: String!
  }

  extend type Query {
    "For the customer who is signed in. The token is theirs alone: keep it out of addresses and logs."
    doorbusterHandOver(productVariantId: ID!): DoorbusterHandOver!
  }
`;

@Resolver()
export class HandOverResolver {
  constructor(
    private readonly client: DoorbusterClient,
    private readonly customers: CustomerService,
    @Inject(DOORBUSTER_OPTIONS) private readonly options: DoorbusterOptions,
    private readonly variants: ProductVariantService,
  ) {}

  @Query()
  @Allow(Permission.Authenticated)
  async doorbusterHandOver(@Ctx() ctx: RequestContext, @Args() args: { productVariantId: ID }) {
    const customer = ctx.activeUserId && (await this.customers.findOneByUserId(ctx, ctx.activeUserId));
    if (!customer) throw new ForbiddenError();
    const variant = await this.variants.findOne(ctx, args.productVariantId);
    if (!variant) throw new UserInputError(`There is no variant ${args.productVariantId}.`);
    const numbers = numbersOf(variant);
    if (!numbers) throw new UserInputError(`${variant.sku} is not sold by Doorbuster: it has no numbers of a sale and a product.`);
    return {
      action: `${this.options.url}/api/v1/session`,
      token: this.client.tokenOf(String(customer.id)),
      to: `/seckill_${numbers.sale}_${numbers.product}.html`,
    };
  }
}
