// Browsers that use http_ece, a second implementation of the encryption. The script generates their keys,
// then decrypts their messages.
import { createECDH, randomBytes } from "node:crypto";
import { createInterface } from "node:readline";
import ece from "http_ece";

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const readJson = async () => JSON.parse((await lines.next()).value);

const { count } = await readJson();
console.log("ready");
await readJson();
const browsers = new Map();
for (let made = 0; made < count; made += 1) {
  const privateKey = createECDH("prime256v1");
  const p256dh = privateKey.generateKeys("base64url");
  browsers.set(p256dh, { privateKey, authSecret: randomBytes(16).toString("base64url") });
}
console.log(
  JSON.stringify([...browsers].map(([p256dh, { authSecret }]) => ({ p256dh, auth: authSecret }))),
);
const read = (await readJson()).map(({ p256dh, encrypted }) => {
  const { privateKey, authSecret } = browsers.get(p256dh);
  const body = Buffer.from(encrypted, "base64url");
  return ece.decrypt(body, { version: "aes128gcm", privateKey, authSecret }).toString("utf8");
});
console.log(JSON.stringify(read));
