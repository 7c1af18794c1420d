// The page in Firefox, by WebDriver BiDi: `node --experimental-websocket tests/firefox.mjs [NETCLIFF]`. Playwright's own way to an unpatched Firefox needs commands that
// Debian's ESR does not know, so this speaks the protocol itself. Prints a line a test and "N passed, N failed".
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { folderServer, here } from "./server.mjs";

const program = process.argv[2] === undefined ? null : resolve(process.argv[2]);
assert.ok(program === null || existsSync(program), `${program} is no program`);
const { server, origin } = await folderServer();

const profile = mkdtempSync(join(tmpdir(), "netcliff-firefox."));
// Nothing leaves the machine: no updates, no telemetry, no services.
const quiet = [
  "app.update.enabled",
  "datareporting.policy.dataSubmissionEnabled",
  "browser.safebrowsing.malware.enabled",
];
const prefs = quiet.map((name) => `user_pref("${name}", false);\n`).join("");
writeFileSync(join(profile, "user.js"), `${prefs}user_pref("network.captive-portal-service.enabled", false);\n`);
const browser = spawn(
  process.env.FIREFOX ?? "/usr/bin/firefox-esr",
  ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port=0"],
  { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, HOME: profile, MOZ_DISABLE_CONTENT_SANDBOX: "1" } },
);
const ended = new Promise((resolve) => browser.on("exit", resolve));

/** The address that the browser listens at. */
const address = await new Promise((resolve, reject) => {
  let said = "";
  browser.stderr.setEncoding("utf8").on("data", (text) => {
    said += text;
    const found = /WebDriver BiDi listening on (ws:\/\/\S+)/.exec(said);
    if (found) resolve(found[1]);
  });
  browser.on("exit", () => reject(new Error(`firefox ended: ${said}`)));
  setTimeout(() => reject(new Error(`firefox does not listen: ${said}`)), 60_000).unref();
});
const socket = new WebSocket(`${address}/session`);
await new Promise((resolve, reject) => {
  socket.onopen = resolve;
  socket.onerror = () => reject(new Error("no connection to firefox"));
});
let next = 0;
const waiting = new Map();
let complaints = [];
socket.onmessage = ({ data }) => {
  const { id, type, method, params, result, error, message } = JSON.parse(data);
  if (id !== undefined && id !== null) {
    const { resolve, reject } = waiting.get(id);
    waiting.delete(id);
    if (type === "error") reject(new Error(`${error}: ${message}`));
    else resolve(result);
  } else if (method === "log.entryAdded" && ["error", "warn"].includes(params.level)) complaints.push(params.text);
  else if (method === "network.beforeRequestSent") {
    const { url } = params.request;
    if (!url.startsWith(origin) && !/^(data|blob|file):/.test(url)) complaints.push(`asked ${url}`);
  }
};
const send = (method, params = {}) =>
  new Promise((resolve, reject) => {
    const id = next++;
    waiting.set(id, { resolve, reject });
    socket.send(JSON.stringify({ id, method, params }));
  });

await send("session.new", { capabilities: {} });
await send("session.subscribe", { events: ["log.entryAdded", "network.beforeRequestSent"] });
const { contexts } = await send("browsingContext.getTree");
const context = contexts[0].context;

/** What an expression gives in the page, by JSON. */
async function evaluate(expression) {
  const asked = `Promise.resolve(${expression}).then((found) => JSON.stringify(found ?? null))`;
  const found = await send("script.evaluate", { expression: asked, target: { context }, awaitPromise: true });
  if (found.type === "exception") throw new Error(found.exceptionDetails.text);
  return JSON.parse(found.result.value);
}
async function until(expression) {
  for (const begun = Date.now(); !(await evaluate(expression));) {
    if (Date.now() - begun > 30_000) throw new Error(`does not come: ${expression}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
async function open(url) {
  complaints = [];
  // Another document first: a change of the fragment alone does not load the page again.
  await send("browsingContext.navigate", { context, url: "about:blank", wait: "complete" });
  await send("browsingContext.navigate", { context, url, wait: "complete" });
}
const keys = (...names) =>
  send("input.performActions", {
    context,
    actions: [
      {
        type: "key",
        id: "keys",
        actions: names.flatMap((value) => ["keyDown", "keyUp"].map((type) => ({ type, value }))),
      },
    ],
  });
const file = async (path) => {
  const found = await send("browsingContext.locateNodes", { context, locator: { type: "css", value: "#file" } });
  await send("input.setFiles", { context, element: { sharedId: found.nodes[0].sharedId }, files: [path] });
};

let passed = 0;
let failed = 0;
async function test(name, body) {
  const begun = Date.now();
  try {
    await body();
    assert.deepEqual(complaints, []);
    passed += 1;
    console.log(`ok firefox: ${name} (${Date.now() - begun} ms)`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED firefox: ${name}: ${error.stack ?? error}`);
  }
}
const glanced = (count) => until(`netcliffPage.took_ms.length >= ${count}`);
const ARROW_RIGHT = "\uE014";

await test("both engines' figures are the command line's; a slider moves by keys", async () => {
  await open(`${origin}/#v1/explore?host=pentium4-2530mhz&set=ring=64&scheme=interrupt`);
  await glanced(1);
  const common = { host: "pentium4-2530mhz", set: ["ring=64"], scheme: "interrupt", arrivals: "poisson", size: "64B" };
  const setting = { ...common, link: "1Gbit/s", queues: null, flows: null };
  const ask = async (call, question) =>
    (await evaluate(`netcliffPage.ask(${JSON.stringify(call)}, ${JSON.stringify(question)})`)).reply.ok;
  const model = await ask("records", { setting, rates: "20kpps,150kpps", origin: { command: "", started_unix_s: 0 } });
  const simulated = await ask("simulate", { setting, rate: "150kpps", seed: 3, packets: 10_000 });
  if (program) {
    const asked = (...more) => {
      const common = ["--host", "pentium4-2530mhz", "--set", "ring=64", "--scheme", "interrupt", "--json", ...more];
      const [command, ...rest] = [more.includes("--seed") ? "simulate" : "predict", ...common];
      return execFileSync(program, [command, ...rest], { encoding: "utf8" })
        .trim()
        .split("\n")
        .map(JSON.parse);
    };
    const own = [
      ...asked("--rates", "20kpps,150kpps"),
      ...asked("--rate", "150kpps", "--seed", "3", "--packets", "10000"),
    ];
    [...model, simulated].forEach((record, i) => assert.deepEqual(record.outcome, own[i].outcome));
  }
  await evaluate(`document.querySelector("#set-socket_buffer-slider").focus()`);
  const before = await evaluate("location.hash");
  await keys(ARROW_RIGHT);
  await glanced(2);
  assert.notEqual(await evaluate("location.hash"), before);
});

await test("a find record opens with its measured points; a damaged file is refused", async () => {
  await open(`${origin}/`);
  await glanced(1);
  await file(join(here, "tests/data/find.json"));
  await until(`document.querySelector("path.measured") !== null`);
  const damaged = join(profile, "damaged.json");
  writeFileSync(damaged, '{"calibration": {');
  await file(damaged);
  await until(`document.querySelector("#message").textContent.includes("damaged JSON")`);
});

await test("the other views, and from a folder", async () => {
  await open(`${origin}/#v1/watch?set=application=3us&set=ring=64&scheme=interrupt&rate=250kpps`);
  await until(`document.querySelector("canvas") !== null`);
  await evaluate(`document.querySelector("#step").click()`);
  await open(`file://${join(here, "dist/index.html")}#v1/explore?scheme=napi`);
  await glanced(1);
});

await send("browser.close").catch(() => {});
setTimeout(() => browser.kill("SIGKILL"), 5000).unref();
await ended;
server.close();
rmSync(profile, { recursive: true, force: true });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
