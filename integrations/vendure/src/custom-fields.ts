/** The fields that the plugin adds to Vendure's own entities. */
import { CustomFields, LanguageCode, OrderLine, ProductVariant } from '@vendure/core';

declare module '@vendure/core/dist/entity/custom-entity-fields' {
  interface CustomProductVariantFields {
    doorbusterSale?: number | null;
    doorbusterProduct?: number | null;
  }
  interface CustomOrderLineFields {
    doorbusterUnitPrice?: number | null;
  }
}

const english = (value: string) => [{ languageCode: LanguageCode.en, value }];

export const customFields: CustomFields = {
  ProductVariant: [
    {
      name: 'doorbusterSale',
      type: 'int',
      nullable: true,
      label: english('Doorbuster: sale'),
      description: english('The number of the sale. With it and a product number the variant is sold by Doorbuster alone.'),
    },
    {
      name: 'doorbusterProduct',
      type: 'int',
      nullable: true,
      label: english('Doorbuster: product'),
      description: english('The number of the product in that sale.'),
    },
  ],
  // Internal: no client can set a price.
  OrderLine: [{ name: 'doorbusterUnitPrice', type: 'int', nullable: true, internal: true }],
};

/** Whether customers can't buy it here. One number alone is a mistake in the making, and does not sell either. */
export function isDoorbusters(variant: ProductVariant): boolean {
  const { doorbusterSale, doorbusterProduct } = variant.customFields;
  return isNumber(doorbusterSale) || isNumber(doorbusterProduct);
}

/** Sale and product, if the variant has both numbers. */
export function numbersOf(variant: ProductVariant): { sale: number; product: number } | undefined {
  const { doorbusterSale: sale, doorbusterProduct: product } = variant.customFields;
  return isNumber(sale) && isNumber(product) ? { sale, product } : undefined;
}

export function isSoldByDoorbuster(line: OrderLine): boolean {
  return isNumber(line.customFields.doorbusterUnitPrice);
}

function isNumber(value: number | null | undefined): value is number {
  return value !== undefined && value !== null;
}
