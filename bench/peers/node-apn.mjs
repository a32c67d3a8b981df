// @parse/node-apn: sends to 1,000 tokens a call, one for each stream, one call after another.
import apn from "@parse/node-apn";
import { orders, perform } from "./orders.mjs";

const STREAMS = 1000;

const { config, tokens, payload, headers } = orders;
const endpoint = new URL(config.endpoint);
const provider = new apn.Provider({
  token: { key: config.private_key, keyId: config.key_id, teamId: config.team_id },
  address: endpoint.hostname,
  port: Number(endpoint.port),
  ca: config.ca_certificate,
  production: true,
});
// The sandbox serves APNs below a path, which node-apn cannot be configured with.
const makePath = provider.client.makePath;
provider.client.makePath = (type, below) => endpoint.pathname + makePath(type, below);

const notification = new apn.Notification();
notification.rawPayload = payload;
notification.topic = headers["apns-topic"];
notification.pushType = headers["apns-push-type"];
notification.priority = Number(headers["apns-priority"]);
notification.expiry = Number(headers["apns-expiration"]);
notification.collapseId = headers["apns-collapse-id"];

async function send(tokens) {
  const { failed } = await provider.send(notification, tokens);
  if (failed.length > 0) throw new Error(JSON.stringify(failed[0]));
}

// Warm up: open the connection and let the JIT compiler optimise.
await send(tokens.slice(0, 1));
for (let round = 0; round < 5; round += 1) await send(tokens.slice(0, STREAMS));
await perform(async () => {
  for (let at = 0; at < tokens.length; at += STREAMS) await send(tokens.slice(at, at + STREAMS));
});
