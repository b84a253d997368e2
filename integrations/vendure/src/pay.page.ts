/** The payment pages: plain forms, without script. */
import { SoldOrder } from './events.js';
import { PayLink } from './signing.js';

const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);

function money(amount: number, currency: string): string {
  const format = new Intl.NumberFormat('en', { style: 'currency', currency });
  return format.format(amount / 10 ** (format.resolvedOptions().maximumFractionDigits ?? 2));
}

const page = (title: string, body: string): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${title}</title><style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:3rem auto;padding:0 1rem}
button{font:inherit;padding:.6rem 1.2rem}</style></head><body><main>${body}</main></body></html>`;

export function payPage(link: PayLink, order: SoldOrder): string {
  const hidden = Object.entries(link).map(([name, value]) => `<input type="hidden" name="${name}" value="${escaped(value)}">`);
  return page(
    'Payment',
    `<h1>Payment</h1><p>Order ${escaped(order.id.slice(0, 8))}</p>
<form method="post">${hidden.join('')}<button id="pay">Pay ${escaped(money(order.amount, order.currency))}</button></form>
<p><small>A test payment: no money is taken.</small></p>`,
  );
}

export function messagePage(message: string): string {
  return page('Payment', `<h1>Payment</h1><p id="message">${escaped(message)}</p>`);
}
