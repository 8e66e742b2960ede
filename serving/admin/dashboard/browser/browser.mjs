// A Chromium of the system's, as the tests and the screenshots use it.
import { chromium } from "playwright-core";

// launch starts it with nothing on that talks to anyone but the page's own server, over QUIC if it is asked for.
export function launch(executablePath, { quic = false } = {}) {
  return chromium.launch({
    executablePath,
    args: ["--no-sandbox", "--disable-gpu", ...(quic ? [] : ["--disable-quic"]), "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

// sign opens the dashboard with the token.
export async function sign(page, url, token) {
  await page.goto(url);
  await page.getByLabel("Admin token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Hosts", exact: true }).waitFor();
}
