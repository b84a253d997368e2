/** Sends Doorbuster what it must hear, until it is answered. What is to be sent is in the database, so a crash loses nothing. */
import { Injectable, OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common';
import { Logger, TransactionalConnection } from '@vendure/core';

import { DoorbusterClient } from './doorbuster.client.js';
import { DoorbusterReport } from './entities.js';
import { LOG_CONTEXT } from './options.js';

const PAUSE_MS_MIN = 1_000;
const PAUSE_MS_MAX = 30_000;
const REPORTS_MAX = 100;

@Injectable()
export class DoorbusterReporter implements OnApplicationBootstrap, OnApplicationShutdown {
  private timer: NodeJS.Timeout | undefined;
  private pauseMs = PAUSE_MS_MIN;
  private stopped = false;

  constructor(
    private readonly client: DoorbusterClient,
    private readonly connection: TransactionalConnection,
  ) {}

  onApplicationBootstrap(): void {
    this.wait();
  }

  onApplicationShutdown(): void {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  /** Sends what waits. True if Doorbuster has answered all of it. */
  async send(filter: { doorbusterId?: string } = {}): Promise<boolean> {
    const reports = this.connection.rawConnection.getRepository(DoorbusterReport);
    const waiting = await reports.find({ where: { ...filter, answer: '' }, order: { id: 'ASC' }, take: REPORTS_MAX });
    let answered = true;
    for (const report of waiting) {
      const outcome = await this.client.report(report);
      if ('answer' in outcome) {
        await reports.update(report.id, { answer: outcome.answer });
        if (outcome.answer.startsWith('refused')) Logger.error(`${report.kind} ${report.reportId}: ${outcome.answer}`, LOG_CONTEXT);
        continue;
      }
      Logger.warn(`${report.kind} ${report.reportId} is not reported yet: ${outcome.trouble}`, LOG_CONTEXT);
      answered = false;
    }
    return answered;
  }

  private wait(): void {
    if (this.stopped) return;
    this.timer = setTimeout(() => void this.round(), this.pauseMs);
  }

  private async round(): Promise<void> {
    try {
      const answered = await this.send();
      this.pauseMs = answered ? PAUSE_MS_MIN : Math.min(this.pauseMs * 2, PAUSE_MS_MAX);
    } catch (error) {
      Logger.error(`reports can't be sent: ${String(error)}`, LOG_CONTEXT);
      this.pauseMs = PAUSE_MS_MAX;
    }
    this.wait();
  }
}
