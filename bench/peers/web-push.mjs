// web-push: persistent connections over HTTP/1.1, the only protocol that it supports.
import { createECDH } from "node:crypto";
import { readFileSync } from "node:fs";
import { Agent } from "node:https";
import webPush from "web-push";
import { orders, perform } from "./orders.mjs";

const CONNECTIONS = 64;
const WARM = 500;

const { config, payload, count } = orders;
const headers = Object.fromEntries(orders.headers);
const subscriptions = JSON.parse(readFileSync(orders.subscriptions, "utf8")).slice(0, count);
const pair = createECDH("prime256v1");
pair.setPrivateKey(Buffer.from(config.vapid_private_key, "base64url"));
const options = {
  vapidDetails: {
    subject: config.subject,
    publicKey: pair.getPublicKey("base64url"),
    privateKey: config.vapid_private_key,
  },
  TTL: Number(headers.ttl),
  urgency: headers.urgency,
  topic: headers.topic,
  agent: new Agent({ keepAlive: true, maxSockets: CONNECTIONS, ca: config.ca_certificate }),
};

async function send(subscriptions) {
  let next = 0;
  const sender = async () => {
    while (next < subscriptions.length) {
      const subscription = subscriptions[next];
      next += 1;
      await webPush.sendNotification(subscription, payload, options);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, sender));
}

await send(subscriptions.slice(0, WARM));
await perform(() => send(subscriptions));
