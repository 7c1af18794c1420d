// web/dist as any web server has it, under the policy of `netcliff serve`.
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";

export const here = new URL("..", import.meta.url).pathname;
const policy =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const types = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css" };
/** The server, and its address. */
export async function folderServer() {
  const server = createServer((request, response) => {
    const name = new URL(request.url, "http://x").pathname.slice(1) || "index.html";
    const file = join(here, "dist", name);
    if (!/^[\w.]+$/.test(name) || !existsSync(file)) {
      response.writeHead(404).end("no such page\n");
      return;
    }
    response
      .writeHead(200, { "content-type": types[name.split(".").pop()], "content-security-policy": policy })
      .end(readFileSync(file));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, origin: `http://127.0.0.1:${server.address().port}` };
}
