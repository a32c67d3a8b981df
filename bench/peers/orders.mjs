// How a peer is spoken with, by lines: its orders come first; once it is ready it says so, works
// when it is told to, and says how many microseconds it took.
import { createInterface } from "node:readline";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function hear() {
  const { value, done } = await lines.next();
  if (done) process.exit(0);
  return value;
}

export const orders = JSON.parse(await hear());

export async function perform(work) {
  console.log("ready");
  await hear();
  const started = process.hrtime.bigint();
  await work();
  console.log(String((process.hrtime.bigint() - started) / 1000n));
  // It is looked at once more, then the input ends.
  await hear();
}
