import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Turns } from '../src/turns.js';

test('work waits for the work before it, also where that failed', async () => {
  const turns = new Turns();
  const said: string[] = [];
  const work = (name: string, fails: boolean) => async () => {
    said.push(`${name} begins`);
    await new Promise((done) => setImmediate(done));
    said.push(`${name} ends`);
    if (fails) throw new Error(name);
  };
  const results = await Promise.allSettled([turns.take(work('a', true)), turns.take(work('b', false))]);
  assert.deepEqual(said, ['a begins', 'a ends', 'b begins', 'b ends']);
  assert.deepEqual(results.map(({ status }) => status), ['rejected', 'fulfilled']);
});
