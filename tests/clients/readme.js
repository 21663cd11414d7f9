// README.md's program for Node, exactly as it stands there. PORT says where a server with the module is.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Redis } from "ioredis";

const require = createRequire(import.meta.url);
const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
const [, key] = readme.split("```\nann>")[1].match(/LOCK\.ACQUIRE (\S+) /);
const [[, program], ...others] = readme.matchAll(/^```js\n(.*?)^```/gms);
assert.equal(others.length, 0);

const client = new Redis({ port: +process.env.PORT });
let written = 0;
const shop = {
  async query(text, [fence]) {
    const holder = (await client.call("LOCK.INFO", key))?.flat(2);
    assert(holder?.includes(fence), `README's transcript locks ${key}, and so must this program`);
    assert.match(text, /fence <= \$1/);
    written++;
  },
};
const Program = Object.getPrototypeOf(async () => {}).constructor;
await new Program("require", "client", "shop", program)(() => require("../../clients/node"), client, shop);
assert.equal(written, 1);
assert.equal(await client.get("price"), "5");
assert.equal(await client.exists(key), 0);
await client.quit();
console.log("README's program for Node locks the key that README's transcript locks, and does its work");
