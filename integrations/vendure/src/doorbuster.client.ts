/** The calls that the shop makes to Doorbuster. Each is bounded; one without an answer may have been carried out. */
import { Inject, Injectable } from '@nestjs/common';

import { DoorbusterReport } from './entities.js';
import { SoldOrder, parseOrder } from './events.js';
import { DOORBUSTER_OPTIONS, DoorbusterOptions } from './options.js';
import { Refused } from './refused.js';
import { buyerToken, reportSignature } from './signing.js';

const TIMEOUT_MS = 10_000;
const TOKEN_SECONDS = 3600;
const JSON_TYPE = { 'Content-Type': 'application/json' };

@Injectable()
export class DoorbusterClient {
  private readonly server: string;

  constructor(@Inject(DOORBUSTER_OPTIONS) private readonly options: DoorbusterOptions) {
    this.server = options.internalUrl ?? options.url;
  }

  /** What signs a buyer in at Doorbuster. */
  tokenOf(buyer: string): string {
    return buyerToken(this.options.shopKey, buyer, now(), this.options.tokenSeconds ?? TOKEN_SECONDS);
  }

  /** An order as its buyer may read it; nothing if there is none, or it is another buyer's. */
  async orderOf(buyer: string, order: string): Promise<SoldOrder | undefined> {
    const session = await this.call('/api/v1/session', { method: 'POST', headers: bearer(this.tokenOf(buyer)) });
    if (session.status !== 200) throw unavailable(`the session: ${await problem(session)}`);
    const { token } = (await session.json()) as { token: string };
    const answer = await this.call(`/api/v1/orders/${encodeURIComponent(order)}`, { headers: bearer(token) });
    if (answer.status === 404 || answer.status === 400) return undefined;
    if (answer.status !== 200) throw unavailable(`the order: ${await problem(answer)}`);
    return parseOrder(await answer.json());
  }

  /**
   * Reports a payment or a refund. `answer` is Doorbuster's last word on it; without one it must be sent again, and
   * `trouble` says why.
   */
  async report(report: DoorbusterReport): Promise<{ answer: string } | { trouble: string }> {
    const isPayment = report.kind === 'payment';
    const id = isPayment ? { payment_id: report.reportId } : { refund_id: report.reportId };
    const money = isPayment ? { amount: report.amount, currency: report.currency } : { amount: report.amount };
    const body = JSON.stringify({ ...id, order: report.doorbusterId, ...money });
    const signature = reportSignature(this.options.paymentSecret, body, now());
    const headers = { ...JSON_TYPE, 'Doorbuster-Signature': signature };
    const path = isPayment ? '/api/v1/payments' : '/api/v1/payments/refunds';
    try {
      const answer = await this.call(path, { method: 'POST', headers, body });
      if (answer.status === 200) {
        const { result } = (await answer.json()) as { result?: string };
        return { answer: result ?? 'settled' };
      }
      // Another amount or currency than before, or an order that can't take it: the same again changes nothing.
      const isFinal = answer.status === 409 || answer.status === 422;
      const why = await problem(answer);
      return isFinal ? { answer: `refused: ${why}`.slice(0, 250) } : { trouble: why };
    } catch (error) {
      return { trouble: String(error) };
    }
  }

  private async call(path: string, init: RequestInit): Promise<Response> {
    try {
      return await fetch(this.server + path, { ...init, redirect: 'error', signal: AbortSignal.timeout(TIMEOUT_MS) });
    } catch (error) {
      throw unavailable(String(error));
    }
  }
}

const now = (): number => Math.floor(Date.now() / 1000);
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });
const unavailable = (why: string) => new Refused(503, `The sale does not answer at the moment; please try again. (${why})`);

async function problem(answer: Response): Promise<string> {
  const text = await answer.text();
  try {
    const { code, detail } = JSON.parse(text) as { code?: string; detail?: string };
    return `${answer.status} ${code ?? ''} ${detail ?? ''}`.trim();
  } catch {
    return `${answer.status} ${text.slice(0, 200)}`;
  }
}

