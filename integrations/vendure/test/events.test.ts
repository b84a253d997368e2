import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Malformed, parseEvents } from '../src/events.js';

const order = {
  id: 'ab', sale: 3, product: 30, buyer: 7, quantity: 2, unit_price: 100, amount: 200, currency: 'EUR', status: 'held',
  address: { city: 'Bergen', phone: null },
};
const held = { type: 'order.held', sequence: 5, data: { order } };

test('an event of an order has what the shop needs, and a buyer that is a text', () => {
  const [event] = parseEvents(JSON.stringify(held));
  assert.ok(event?.type === 'order');
  assert.deepEqual([event.sequence, event.order.buyer, event.order.unitPrice], [5, '7', 100]);
  assert.deepEqual(event.order.address, { city: 'Bergen' });
});

test('a list has its events in their order, and what the shop does not follow is passed over', () => {
  const batch = { type: 'batch', events: [held, { type: 'sale.started', sequence: 6, data: {} }] };
  assert.deepEqual(parseEvents(JSON.stringify(batch)).map(({ type }) => type), ['order', 'other']);
});

test('what is no event is refused with the field that is wrong', () => {
  const cases: [unknown, RegExp][] = [
    ['{', /not JSON/],
    ['[]', /the body/],
    [{ ...held, sequence: '5' }, /sequence/],
    [{ ...held, data: {} }, /order/],
    [{ ...held, data: { order: { ...order, amount: 1.5 } } }, /amount/],
    [{ ...held, data: { order: { ...order, id: '' } } }, /id/],
  ];
  for (const [body, says] of cases) {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    assert.throws(() => parseEvents(text), (error) => error instanceof Malformed && says.test(error.message), text);
  }
});
