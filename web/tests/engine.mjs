// Answers questions by the engine as the page has it: lines of [call, question] on stdin, the replies on stdout.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { gunzipSync } from "node:zlib";
import * as engine from "../pkg/netcliff.js";

const text = readFileSync(new URL("../dist/wasm.js", import.meta.url), "utf8");
const packed = Buffer.from(/"([^"]+)"/.exec(text)[1], "base64");
engine.initSync({ module: gunzipSync(packed) });
for await (const line of createInterface({ input: process.stdin })) {
  const [call, question] = JSON.parse(line);
  process.stdout.write(`${engine[call](JSON.stringify(question))}\n`);
}
