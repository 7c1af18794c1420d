// Pictures of each view in both themes against those kept in tests/pictures, a sixth of their size: letters of other fonts look alike there,
// a missing figure, another colour or a moved panel does not. `page.mjs --keep` keeps new ones.
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { here } from "./server.mjs";

const folder = join(here, "tests/pictures");
/** Pixels across and down. */
const SIZE = [240, 150];
/** Largest mean difference of a pixel's channel, of 255, and largest share of pixels that differ by more than 48. */
const MEAN = 4;
const SHARE = 0.02;

/** In a page of its own, since the explorer's policy forbids nothing here: smaller, and how far from the kept one. */
async function compared(taken, kept, [width, height]) {
  const drawn = async (base64) => {
    const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(image, 0, 0, width, height);
    return { canvas, data: context.getImageData(0, 0, width, height).data };
  };
  const now = await drawn(taken);
  const png = now.canvas.toDataURL("image/png").split(",")[1];
  if (kept === null) return { png, mean: null, share: null };
  const before = await drawn(kept);
  let [sum, far] = [0, 0];
  for (let i = 0; i < now.data.length; i += 4) {
    const apart = [0, 1, 2].map((c) => Math.abs(now.data[i + c] - before.data[i + c]));
    sum += apart[0] + apart[1] + apart[2];
    if (Math.max(...apart) > 48) far += 1;
  }
  return { png, mean: sum / (3 * width * height), share: far / (width * height) };
}

/** The view as it is, light and dark. `shots`: where the pictures go as they were taken. */
export async function pictured(page, name, { keep, shots }) {
  mkdirSync(folder, { recursive: true });
  const blank = await page.context().browser().newPage();
  for (const theme of ["light", "dark"]) {
    await page.evaluate((now) => {
      document.documentElement.dataset.theme = now;
      scrollTo(0, 0);
      // What is drawn on a canvas is drawn again.
      dispatchEvent(new Event("resize"));
    }, theme);
    await page.waitForTimeout(150);
    const taken = await page.screenshot({ path: join(shots, `${name}-${theme}.png`), animations: "disabled" });
    const file = join(folder, `${name}-${theme}.png`);
    const kept = existsSync(file) && !keep ? readFileSync(file).toString("base64") : null;
    // As text for the debugger: a function would be one of the page.
    const { png, mean, share } = await blank.evaluate(
      `(${compared.toString()})(${JSON.stringify(taken.toString("base64"))}, ${JSON.stringify(kept)}, ${JSON.stringify(SIZE)})`,
    );
    if (keep) writeFileSync(file, Buffer.from(png, "base64"));
    else {
      assert.ok(kept !== null, `${file} is missing: node tests/page.mjs --keep`);
      const how = `${name}, ${theme}: mean difference ${mean.toFixed(2)} of 255, ${(100 * share).toFixed(2)} % of the pixels`;
      console.log(`  ${how}`);
      assert.ok(mean <= MEAN && share <= SHARE, `${how}: see ${shots}; --keep keeps the new picture`);
    }
  }
  await blank.close();
}
