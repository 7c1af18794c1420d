// Builds the page into dist/: `node build.mjs [--wasm]`. With --wasm the engine is packed anew from pkg/ (scripts/web.sh makes that).
import { execFileSync } from "node:child_process";
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const out = new URL("./dist/", import.meta.url).pathname;
const here = new URL("./", import.meta.url).pathname;
mkdirSync(out, { recursive: true });

const common = {
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome103", "firefox115", "safari16.4"],
  absWorkingDir: here,
  legalComments: "none",
  // The engine's way to find its module by the script's address is not used: the page hands the module over.
  define: { "import.meta.url": '""' },
};
const worker = await build({ ...common, entryPoints: ["src/worker.ts"], write: false });
await build({
  ...common,
  entryPoints: ["src/main.ts"],
  outfile: `${out}app.js`,
  define: { ...common.define, WORKER_SOURCE: JSON.stringify(worker.outputFiles[0].text) },
});
await build({ ...common, entryPoints: ["src/style.css"], outfile: `${out}app.css` });
copyFileSync(`${here}src/index.html`, `${out}index.html`);

if (process.argv.includes("--wasm")) {
  // By gzip(1): versions of Node.js compress differently.
  const packed = execFileSync("gzip", ["-9nc", `${here}pkg/netcliff_bg.wasm`], { maxBuffer: 1 << 26 });
  if (packed.length > 1 << 20) throw new Error(`the engine is ${packed.length} bytes compressed; at most ${1 << 20}`);
  writeFileSync(`${out}wasm.js`, `globalThis.netcliffWasm="${packed.toString("base64")}";\n`);
}
