// Streams from the page for streaming clients, over one transport:
//   node streams.mjs URL TRANSPORT CHROMIUM [KEY]
// prints what the page shows once results have come, and ends with 1 if they do not.
import assert from "node:assert/strict";
import { launch } from "./browser.mjs";

const [url, transport, chromium, key = ""] = process.argv.slice(2);
const browser = await launch(chromium, { quic: true });
const page = await browser.newPage();
page.setDefaultTimeout(15000);
const faults = [];
page.on("pageerror", (e) => faults.push(String(e)));
page.on("console", (m) => { if (m.type() === "error") faults.push(m.text()); });
try {
  await page.goto(`${url}/v1/gearshift/stream/page?transport=${transport}`);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Stream" }).click();
  await page.waitForFunction(() => parseInt(document.querySelector("#counts").textContent.split(", ")[1]) >= 50);
  assert.equal(await page.locator("#transport").innerText(), transport);
  assert.match(await page.locator("#place").innerText(), /^served by h[12]$/);
  assert.match(await page.locator("#result").innerText(), /^frame \d+ by (small|large), in a batch of \d+: \{/);
  assert.equal(await page.locator("#error").innerText(), "–");
  // Frames are JPEGs of the canvas, and not of a blank one.
  assert.ok(await page.evaluate(() => new Set(document.querySelector("canvas").getContext("2d").getImageData(0, 0, 320, 180).data).size > 4));
  assert.deepEqual(faults, []);
} catch (e) {
  console.log(e.stack, faults);
  process.exitCode = 1;
}
console.log(await page.locator("dl").innerText());
await browser.close();
