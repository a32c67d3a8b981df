// graphile-worker: adds jobs in batches, then runs them in a pool with a local queue and batched
// completions. The settings are those of graphile-worker's own benchmark. The task does nothing.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { orders, perform } from "./orders.mjs";

const BATCH = 1000;

const { connection, count } = orders;
const pool = new pg.Pool({ connectionString: connection, max: 20 });
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const utils = await makeWorkerUtils({ pgPool: pool, logger });
await utils.migrate();

async function work(count) {
  let done = 0;
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  for (let at = 0; at < count; at += BATCH) {
    const jobs = [];
    for (let number = at; number < Math.min(at + BATCH, count); number += 1) {
      jobs.push({ identifier: "deliver", payload: { device: number } });
    }
    await utils.addJobs(jobs);
  }
  const deliver = () => {
    done += 1;
    if (done === count) finish();
  };
  const runner = await run({
    pgPool: pool,
    logger,
    noHandleSignals: true,
    preset: {
      worker: {
        concurrentJobs: 24,
        pollInterval: 2000,
        maxPoolSize: 20,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    taskList: { deliver },
  });
  await finished;
  // Stopping writes the completions that are not written yet.
  await runner.stop();
  const { rows } = await pool.query("select count(*)::int as left from graphile_worker.jobs");
  if (rows[0].left !== 0) throw new Error(`${rows[0].left} jobs are left`);
}

await work(BATCH);
await perform(() => work(count));
process.exit(0);
