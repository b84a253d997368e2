/** The smallest storefront: one page, which speaks to the shop's API as any other would. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Controller, Get, Header } from '@nestjs/common';
import { Allow, Permission, PluginCommonModule, VendurePlugin } from '@vendure/core';

// Beside the sources: `dist` has what was compiled alone.
const PAGE = readFileSync(join(__dirname, '../../shop/storefront.html'), 'utf8');

@Controller()
class StorefrontController {
  // Not `same-origin`: Doorbuster must see where the form of the hand-over comes from.
  @Get()
  @Header('Content-Type', 'text/html; charset=utf-8')
  @Header('Referrer-Policy', 'strict-origin-when-cross-origin')
  @Allow(Permission.Public)
  show(): string {
    return PAGE;
  }
}

@VendurePlugin({ compatibility: '^3.0.0', imports: [PluginCommonModule], controllers: [StorefrontController] })
export class StorefrontPlugin {}
