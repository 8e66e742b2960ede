// Pictures of the dashboard for the documents: node shots.mjs URL CHROMIUM FOLDER
import { launch } from "./browser.mjs";

const [url, chromium, folder] = process.argv.slice(2);
const browser = await launch(chromium);

async function shot(name, { explained, ...options }) {
  const page = await browser.newPage(options);
  await page.goto(url);
  await page.locator(".replica").first().waitFor();
  await page.waitForTimeout(3000); // some seconds of decisions
  if (explained) {
    await page.locator("#decisions tr.row", { has: page.locator(".badge.good") }).first().click();
    await page.waitForTimeout(500);
    await page.evaluate(() => scrollTo(0, 0));
    if (explained === "in view") await page.locator("tr.row.open").evaluate((row) => scrollTo(0, row.getBoundingClientRect().top + scrollY - 250));
  }
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.close();
}

await shot("dashboard", { viewport: { width: 1280, height: 1420 }, colorScheme: "light", explained: true });
await shot("dashboard-phone", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, colorScheme: "dark" });
await shot("dashboard-phone-decision", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, colorScheme: "dark", explained: "in view" });
await browser.close();
