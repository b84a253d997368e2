/** Where Doorbuster tells what becomes of orders: `POST /doorbuster/hooks`. */
import { Controller, Inject, Post, Req, Res } from '@nestjs/common';
import { Allow, Logger, Permission } from '@vendure/core';
import type { Request, Response } from 'express';
import { Webhook } from 'standardwebhooks';

import { Malformed, parseEvents } from './events.js';
import { DOORBUSTER_OPTIONS, DoorbusterOptions, LOG_CONTEXT } from './options.js';
import { DoorbusterOrders } from './orders.service.js';
import { Refused } from './refused.js';

export const HOOKS_PATH = 'doorbuster/hooks';

@Controller(HOOKS_PATH)
export class HooksController {
  private readonly keys: Webhook[];

  constructor(
    @Inject(DOORBUSTER_OPTIONS) options: DoorbusterOptions,
    private readonly orders: DoorbusterOrders,
  ) {
    this.keys = options.webhookSecrets.map((secret) => new Webhook(secret));
  }

  /** 204: done, durably. 401: not Doorbuster's. Anything else: it comes again, and the log says why it could not be done. */
  @Post()
  @Allow(Permission.Public)
  async hear(@Req() request: Request, @Res() response: Response): Promise<void> {
    // The bytes that were signed: plugin.ts keeps them from being parsed.
    const body = Buffer.isBuffer(request.body) ? request.body.toString('utf8') : '';
    if (!this.isSigned(body, request.headers as Record<string, string>)) {
      response.status(401).json({ error: 'This is not signed with the secret of the endpoint, or too old.' });
      return;
    }
    try {
      for (const event of parseEvents(body)) await this.orders.hear(event);
      response.status(204).end();
    } catch (error) {
      const [status, text] = answerTo(error);
      const details = status === 500 && error instanceof Error ? error.stack : '';
      Logger.error(`an event was not carried out, and comes again: ${text} ${details}`.trimEnd(), LOG_CONTEXT);
      response.status(status).json({ error: text });
    }
  }

  private isSigned(body: string, headers: Record<string, string>): boolean {
    return this.keys.some((key) => {
      try {
        key.verify(body, headers);
        return true;
      } catch {
        return false;
      }
    });
  }
}

function answerTo(error: unknown): [number, string] {
  if (error instanceof Refused) return [error.status, error.message];
  if (error instanceof Malformed) return [400, error.message];
  return [500, `The shop failed: ${error instanceof Error ? error.message : String(error)}`];
}

