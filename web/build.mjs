// Builds the page into dist/: `node build.mjs [--wasm]`. With --wasm the engine is packed anew from pkg/ (scripts/web.sh makes that).
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

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
  const packed = gzipSync(readFileSync(`${here}pkg/netcliff_bg.wasm`), { level: 9 });
  // The operating system's mark of gzip's header, so that every machine writes the same.
  packed[9] = 255;
  if (packed.length > 1 << 20) throw new Error(`the engine is ${packed.length} bytes compressed; at most ${1 << 20}`);
  writeFileSync(`${out}wasm.js`, `globalThis.netcliffWasm="${packed.toString("base64")}";\n`);
}
