// Pictures of the dashboard for the documents: node shots.mjs URL TOKEN CHROMIUM FOLDER
import { launch, sign } from "./browser.mjs";

const [url, token, chromium, folder] = process.argv.slice(2);
const browser = await launch(chromium);

async function shot(name, { explained, ...options }) {
  const page = await browser.newPage(options);
  await sign(page, url, token);
  await page.locator(".replica").first().waitFor();
  await page.waitForTimeout(3000); // some seconds of decisions
  if (explained) {
    // One that is over, near the top.
    const row = await page.waitForFunction(() => [...document.querySelectorAll("#decisions tr.row")].slice(0, 5).find((r) => r.querySelector(".badge.good")), null, { polling: 200, timeout: 60000 });
    await row.asElement().click();
    await page.waitForTimeout(500);
    await page.evaluate(() => scrollTo(0, 0));
    if (explained === "in view") await page.locator("tr.row.open").evaluate((row) => scrollTo(0, row.getBoundingClientRect().top + scrollY - 250));
  }
  await page.screenshot({ path: `${folder}/${name}.png` });
  await page.close();
}

await shot("dashboard", { viewport: { width: 1280, height: 2140 }, colorScheme: "light", explained: true });
await shot("dashboard-phone", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, colorScheme: "dark" });
await shot("dashboard-phone-decision", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, colorScheme: "dark", explained: "in view" });
await browser.close();
