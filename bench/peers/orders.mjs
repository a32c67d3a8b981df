// The protocol between the benchmark and a peer, in lines. The peer reads its parameters, reports that it is
// ready, waits for the start signal, does the work, and reports the duration in microseconds.
import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function readLine() {
  const { value, done } = await lines.next();
  if (done) process.exit(0);
  return value;
}

export const orders = JSON.parse(await readLine());

export async function perform(work) {
  console.log("ready");
  await readLine();
  const started = process.hrtime.bigint();
  await work();
  console.log(String((process.hrtime.bigint() - started) / 1000n));
  // The parent reads our CPU time before it closes the input, so this process must not end earlier.
  await readLine();
}
