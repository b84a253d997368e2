/** Starts the shop: `node dist/shop/main.js FOLDER PORT DOORBUSTER_URL [INTERNAL_URL]`. Prints its address once it can be used. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { CustomerService, LanguageCode, RequestContextService, bootstrap } from '@vendure/core';
import { populate } from '@vendure/core/cli';

import { ShopPlace, secret, shopConfig } from './config.js';

const PRODUCTS = `name,slug,description,assets,facets,optionGroups,optionValues,sku,price,taxCategory,stockOnHand,trackInventory,variantAssets,variantFacets,variant:doorbusterSale,variant:doorbusterProduct
Drop Shoe,drop-shoe,Sold by Doorbuster.,,,,,SHOE,99.00,standard,100,false,,,3,30
Quick Shoe,quick-shoe,Sold by Doorbuster; to be paid at once.,,,,,QUICK,99.00,standard,100,false,,,4,40
Half Shoe,half-shoe,Has a sale but no product number.,,,,,HALF,99.00,standard,100,false,,,3,
Plain Socks,plain-socks,Sold by the shop itself.,,,,,SOCKS,9.00,standard,100,false,,,,
`;

const INITIAL = {
  defaultLanguage: LanguageCode.en,
  defaultZone: 'Europe',
  countries: [{ name: 'Germany', code: 'DE', zone: 'Europe' }],
  taxRates: [{ name: 'Standard', percentage: 19 }],
  shippingMethods: [{ name: 'Standard', price: 500 }],
  paymentMethods: [],
  collections: [],
};

/** Their password is in the folder, in `customer-password`. */
const CUSTOMERS = [
  { firstName: 'Anna', lastName: 'Berg', emailAddress: 'anna@shop.example' },
  { firstName: 'Bea', lastName: 'Holm', emailAddress: 'bea@shop.example' },
];

// A shop to try things with reports nothing of itself to Vendure's makers.
process.env['VENDURE_DISABLE_TELEMETRY'] = 'true';

async function start(place: ShopPlace): Promise<void> {
  const filled = join(place.folder, 'shop.filled');
  const started = () => bootstrap(shopConfig(place));
  if (existsSync(filled)) {
    await started();
  } else {
    const products = join(place.folder, 'products.csv');
    writeFileSync(products, PRODUCTS);
    const app = await populate(started, INITIAL, products);
    const ctx = await app.get(RequestContextService).create({ apiType: 'admin' });
    for (const customer of CUSTOMERS) {
      await app.get(CustomerService).create(ctx, customer, secret(place.folder, 'customer-password'));
    }
    writeFileSync(filled, '');
  }
  console.log(`shop ready at http://127.0.0.1:${place.port}/`);
}

const [folder, port, doorbuster, internalUrl] = process.argv.slice(2);
if (!folder || !port || !doorbuster) {
  console.error('usage: node dist/shop/main.js FOLDER PORT DOORBUSTER_URL [INTERNAL_URL]');
  process.exit(64);
}
start({ folder, port: Number(port), doorbuster, internalUrl }).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
