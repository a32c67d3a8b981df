// Tests of a small shop that sends through Notify. Run them with `npm ci && npm test`.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { NotifyServer, call } from "./notify-server.js";

/** The code under test: it tells a customer about an order. */
class Shop {
  constructor(
    private readonly notifyUrl: string,
    private readonly apiKey: string,
  ) {}

  async ship(phone: string, order: number): Promise<void> {
    const notification = { text: `Order ${order} has shipped`, device_ids: [phone], title: "Shop" };
    await call("POST", `${this.notifyUrl}/v1/notifications`, notification, { "X-API-Key": this.apiKey });
  }
}

let notify: NotifyServer;
let shop: Shop;

beforeEach(async () => {
  notify = await NotifyServer.start();
  await notify.android("phone-1");
  shop = new Shop(notify.url, notify.apiKey);
});

afterEach(() => notify.stop());

async function texts(): Promise<(string | null)[]> {
  return (await notify.deliveredTo("phone-1")).map((message) => message.text);
}

test("the customer is told", async () => {
  await shop.ship("phone-1", 4711);
  assert.deepEqual(await texts(), ["Order 4711 has shipped"]);
});

test("the customer is told after an outage of the provider", async () => {
  await notify.failNext("phone-1", "unavailable", 2);
  await shop.ship("phone-1", 4712);
  assert.deepEqual(await texts(), []);
  await notify.advance(600);
  assert.deepEqual(await texts(), ["Order 4712 has shipped"]);
});
