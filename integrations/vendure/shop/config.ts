/** A small shop to try the plugin with: SQLite, one product that Doorbuster sells and one that it does not. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { DefaultLogger, LogLevel, VendureConfig, dummyPaymentHandler } from '@vendure/core';

import { DoorbusterPlugin } from '../src/index.js';
import { StorefrontPlugin } from './storefront.js';

export interface ShopPlace {
  /** Has the secrets, and gets the database. */
  folder: string;
  port: number;
  /** The address of Doorbuster. */
  doorbuster: string;
  /** The same for the shop itself, if it is another. */
  internalUrl?: string;
}

/** A secret as it stands in its file, without the line end. */
export function secret(folder: string, name: string): string {
  return readFileSync(join(folder, name), 'utf8').trimEnd();
}

export function shopConfig({ folder, port, doorbuster, internalUrl }: ShopPlace): VendureConfig {
  return {
    // The storefront is of the same origin: no other site's page may call.
    apiOptions: {
      hostname: '127.0.0.1',
      port,
      adminApiPath: 'admin-api',
      shopApiPath: 'shop-api',
      cors: false,
      csrfPrevention: true,
    },
    authOptions: {
      tokenMethod: ['cookie', 'bearer'],
      cookieOptions: { name: 'shop', secret: secret(folder, 'cookie-secret'), sameSite: 'lax' },
      superadminCredentials: { identifier: 'superadmin', password: secret(folder, 'admin-password') },
    },
    dbConnectionOptions: {
      type: 'better-sqlite3',
      database: join(folder, 'shop.sqlite'),
      synchronize: true,
      enableWAL: true,
    },
    paymentOptions: { paymentMethodHandlers: [dummyPaymentHandler] },
    logger: new DefaultLogger({ level: LogLevel.Warn, timestamp: true }),
    plugins: [
      DoorbusterPlugin.init({
        url: doorbuster,
        internalUrl,
        shopKey: secret(folder, 'shop-key.pem'),
        paymentSecret: secret(folder, 'payment-secret'),
        webhookSecrets: [secret(folder, 'webhook-secret')],
        signInUrl: '/?back={return}',
      }),
      StorefrontPlugin,
    ],
  };
}
