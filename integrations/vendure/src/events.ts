/** What Doorbuster tells, checked before anything is done with it. */

/** An order, as Doorbuster's events and its API have it. Amounts are in minor units of the currency. */
export interface SoldOrder {
  id: string;
  sale: number;
  product: number;
  /** The id of the Vendure customer, who was handed over under it. */
  buyer: string;
  quantity: number;
  unitPrice: number;
  amount: number;
  currency: string;
  status: string;
  address: Record<string, string>;
}

export interface RefundDue {
  /** Of the refund that was asked for, or of the payment that paid for nothing. */
  id: string;
  order: string;
  amount: number;
  currency: string;
  reason: string;
}

export type DoorbusterEvent =
  | { type: 'order'; sequence: number; order: SoldOrder }
  | { type: 'rejected'; sequence: number; order: string }
  | { type: 'refund.due'; sequence: number; refund: RefundDue }
  | { type: 'other' };

/** The body is not what Doorbuster sends. */
export class Malformed extends Error {}

/** The events of one request: one, or those of a list. */
export function parseEvents(body: string): DoorbusterEvent[] {
  const sent = object(json(body), 'the body');
  if (sent['type'] !== 'batch') return [parseEvent(sent)];
  if (!Array.isArray(sent['events'])) throw new Malformed('a batch has no events');
  return sent['events'].map((event) => parseEvent(object(event, 'an event')));
}

function parseEvent(event: Fields): DoorbusterEvent {
  const type = text(event, 'type');
  if (!type.startsWith('order.') && type !== 'refund.due') return { type: 'other' };
  const sequence = whole(event, 'sequence');
  const data = object(event['data'], 'data');
  if (type === 'refund.due') return { type, sequence, refund: parseRefund(object(data['refund'], 'refund')) };
  const order = object(data['order'], 'order');
  if (type === 'order.rejected') return { type: 'rejected', sequence, order: text(order, 'id') };
  return { type: 'order', sequence, order: parseOrder(order) };
}

export function parseOrder(order: unknown): SoldOrder {
  const fields = object(order, 'order');
  return {
    id: text(fields, 'id'),
    sale: whole(fields, 'sale'),
    product: whole(fields, 'product'),
    buyer: String(fields['buyer']),
    quantity: whole(fields, 'quantity'),
    unitPrice: whole(fields, 'unit_price'),
    amount: whole(fields, 'amount'),
    currency: text(fields, 'currency'),
    status: text(fields, 'status'),
    address: parseAddress(fields['address']),
  };
}

function parseRefund(refund: Fields): RefundDue {
  return {
    id: text(refund, 'payment_id'),
    order: text(refund, 'order'),
    amount: whole(refund, 'amount'),
    currency: text(refund, 'currency'),
    reason: text(refund, 'reason'),
  };
}

function parseAddress(address: unknown): Record<string, string> {
  if (address === undefined || address === null) return {};
  const texts = Object.entries(object(address, 'address')).filter(([, value]) => typeof value === 'string');
  return Object.fromEntries(texts) as Record<string, string>;
}

type Fields = Record<string, unknown>;

function json(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch (error) {
    throw new Malformed(`not JSON: ${String(error)}`);
  }
}

function object(value: unknown, name: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Malformed(`${name} is no object`);
  return value as Fields;
}

function text(fields: Fields, name: string): string {
  const value = fields[name];
  if (typeof value !== 'string' || value === '') throw new Malformed(`${name} is no text`);
  return value;
}

function whole(fields: Fields, name: string): number {
  const value = fields[name];
  if (!Number.isSafeInteger(value)) throw new Malformed(`${name} is no whole number`);
  return value as number;
}
