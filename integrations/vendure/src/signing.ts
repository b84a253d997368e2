/** The three signatures between shop and Doorbuster, made and checked. Pure: the time comes in. */
import { createHmac, createPrivateKey, sign, timingSafeEqual } from 'node:crypto';

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url');

/** A token (ES256) that names the buyer, for `POST /api/v1/session` alone. */
export function buyerToken(shopKey: string, buyer: string, nowSeconds: number, holdsSeconds: number): string {
  const claims = { sub: buyer, iat: nowSeconds, exp: nowSeconds + holdsSeconds };
  const signed = `${encoded({ alg: 'ES256', typ: 'JWT' })}.${encoded(claims)}`;
  const key = { key: createPrivateKey(shopKey), dsaEncoding: 'ieee-p1363' as const };
  return `${signed}.${sign('sha256', Buffer.from(signed), key).toString('base64url')}`;
}

/** What Doorbuster's `shop.pay_url` brings. The amount is in minor units. */
export interface PayLink {
  order: string;
  amount: string;
  currency: string;
  back: string;
  sig: string;
}

export function isPayLinkSigned(secret: string, link: PayLink): boolean {
  const signed = `pay:${link.order}:${link.amount}:${link.currency}:${link.back}`;
  const wanted = createHmac('sha256', secret).update(signed).digest();
  const given = Buffer.from(link.sig, 'hex');
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/** The header `Doorbuster-Signature` of a report. */
export function reportSignature(secret: string, body: string, nowSeconds: number): string {
  const tag = createHmac('sha256', secret).update(`${nowSeconds}.${body}`).digest('hex');
  return `t=${nowSeconds},v1=${tag}`;
}
