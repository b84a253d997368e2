import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, verify } from 'node:crypto';
import { test } from 'node:test';

import { buyerToken, isPayLinkSigned, reportSignature } from '../src/signing.js';

test('a token names the buyer, ends, and is signed with the key of the shop', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  const [head, claims, tag] = buyerToken(pem, '7', 1000, 60).split('.') as [string, string, string];
  assert.deepEqual(JSON.parse(Buffer.from(claims, 'base64url').toString()), { sub: '7', iat: 1000, exp: 1060 });
  const key = { key: publicKey, dsaEncoding: 'ieee-p1363' as const };
  assert.ok(verify('sha256', Buffer.from(`${head}.${claims}`), key, Buffer.from(tag, 'base64url')));
});

test('a link to pay is taken as it was signed, and in no other form', () => {
  const link = { order: 'ab', amount: '4999', currency: 'EUR', back: 'https://drops.example/orders/ab', sig: '' };
  link.sig = createHmac('sha256', 'secret').update(`pay:ab:4999:EUR:${link.back}`).digest('hex');
  assert.ok(isPayLinkSigned('secret', link));
  const forged = [{ order: 'ac' }, { amount: '1' }, { currency: 'USD' }, { back: 'https://elsewhere.example/' }, { sig: '' }, { sig: 'zz' }];
  for (const change of forged) assert.ok(!isPayLinkSigned('secret', { ...link, ...change }), JSON.stringify(change));
  assert.ok(!isPayLinkSigned('another', link));
});

test('a report is signed with its time', () => {
  const tag = createHmac('sha256', 'secret').update('17.{}').digest('hex');
  assert.equal(reportSignature('secret', '{}', 17), `t=17,v1=${tag}`);
});
