// Clicks through the dashboard of a router under load, as an operator would:
//   node drive.mjs URL TOKEN CHROMIUM
// prints each step and ends with 1 at the first that is not as it should be.
import { createRequire } from "node:module";
import assert from "node:assert/strict";
import { launch, sign } from "./browser.mjs";

const [url, token, chromium] = process.argv.slice(2);
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const strangers = [];
const faults = [];

const browser = await launch(chromium);
const context = await browser.newContext({ viewport: { width: 1360, height: 900 }, colorScheme: "light" });
context.setDefaultTimeout(15000);
const page = await context.newPage();
page.on("request", (r) => { if (!r.url().startsWith(url)) strangers.push(r.url()); });
page.on("pageerror", (e) => faults.push(String(e)));
page.on("console", (m) => {
  // A refused sign-in or order, and a router that is gone, are on purpose.
  if (m.type() === "error" && !/status of 40[19]|ERR_INTERNET_DISCONNECTED/.test(m.text())) faults.push(m.text());
});

const feed = "**/admin/dashboard?*";
// disguise has the router say something else.
async function disguise(change) {
  await page.route(feed, async (route) => {
    try {
      const response = await route.fetch();
      await route.fulfill({ response, body: change(await response.text()) });
    } catch (e) {
      if (!/already handled/.test(e.message)) throw e; // its disguise ended on the way
    }
  });
}

// ordered has orders under a path of the admin API refused, and lists them.
async function ordered(path) {
  const list = [];
  await page.route(`**/admin/${path}`, async (route) => {
    list.push(`${new URL(route.request().url()).pathname.replace(/^.*\/admin\//, "")} ${route.request().postData()}`);
    await route.fulfill({ status: 409, json: { error: { message: "refused for a try" } } });
  });
  return list;
}

const rows = page.locator("#decisions tr.row");
const tile = (name) => page.locator(".tile", { hasText: name });

async function step(name, check) {
  const began = Date.now();
  try {
    await check();
  } catch (e) {
    console.log(`not ok: ${name}\n${e.stack}`);
    console.log(await page.locator("body").innerText());
    await browser.close();
    process.exit(1);
  }
  console.log(`ok: ${name} (${Date.now() - began} ms)`);
}

// until waits for a condition of the page, which changes once a second.
async function until(check, what) {
  const end = Date.now() + 15000;
  for (;;) {
    try {
      return await check();
    } catch (e) {
      if (Date.now() > end) throw new Error(`${what}: ${e.message}`);
      await page.waitForTimeout(100);
    }
  }
}

// accessible holds the page to WCAG 2.2 A and AA, contrast among it.
async function accessible() {
  if (!(await page.evaluate(() => "axe" in window))) {
    // The page's policy lets no script in; the browser may.
    await page.evaluate((await import("node:fs")).readFileSync(axe, "utf8"));
  }
  await page.waitForTimeout(1300); // colours that fade in are there by then
  const { violations } = await page.evaluate(() => axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] }));
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target.join(" ") + " " + n.failureSummary).join("; ")}`), []);
}

// fits says that nothing lies beyond the right edge, but in what scrolls by itself.
const fits = async () => assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll("main *")]
  .filter((e) => !e.closest(".scroll, .unseen, code") && e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => `${e.tagName}.${e.className}`)), []);

// whole says that nothing is cut off at the widths of a desk and of a phone, light and dark: no table has to be scrolled
// sideways, and no text ends in dots.
async function whole() {
  for (const width of [1400, 390]) {
    for (const colorScheme of ["light", "dark"]) {
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme });
      await fits();
      assert.deepEqual(await page.evaluate(() => [...document.querySelectorAll("main .scroll, main .who, main .panel, main td, main th")]
        .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
        .map((e) => `${e.tagName}.${e.className} ${e.getAttribute("aria-label") ?? e.textContent.slice(0, 60)}: ${e.scrollWidth} in ${e.clientWidth}`)), [], `at ${width}, ${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 1360, height: 900 });
  await page.emulateMedia({ colorScheme: "light" });
}

await step("who has no token sees no figures", async () => {
  await page.goto(url);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await page.locator("main").isVisible(), false);
  await page.getByLabel("Admin token").fill("not-the-token-of-this-router");
  await page.keyboard.press("Enter");
  await page.getByText("That is not this router’s token.").waitFor();
  await accessible();
});

await step("the token opens the page", async () => {
  await sign(page, url, token);
  await page.getByText("Routing", { exact: true }).waitFor();
  assert.equal(await page.locator("#scenario").innerText(), "tiny");
  assert.match(await page.locator("#policy").innerText(), /static:small/);
});

await step("figures move under load", async () => {
  await until(async () => assert.ok(parseFloat(await tile("Requests").locator(".value").innerText()) > 0), "requests");
  await until(async () => assert.match(await tile("Deadlines met").locator(".more").innerText(), /^[1-9][\d,]* of [1-9]/), "deadlines");
  await until(async () => assert.ok(parseFloat(await tile("Utility").locator(".value").innerText()) > 0), "utility");
  await until(async () => assert.match(await tile("Lost").locator(".more").innerText(), /0 turned away, 0 failed/), "losses");
  assert.equal(await page.locator(".host").count(), 1);
  assert.deepEqual(await page.locator(".replica .who").allInnerTexts(), ["small", "large"]);
});

await step("the charts show the sizes over time, and are read by keys", async () => {
  await page.getByRole("button", { name: "1 min", exact: true }).click();
  await until(async () => assert.ok((await page.locator("#mix rect").count()) > 1), "columns");
  await until(async () => assert.ok((await page.locator("#met .line").count()) > 0), "a line");
  await page.locator("#mix .plot").focus();
  await page.keyboard.press("ArrowLeft");
  assert.match(await page.locator("#spoken").textContent(), /^Requests per second, by size, \d\d:\d\d:\d\d: small [\d.]+, large [\d.]+$/);
  await page.keyboard.press("Escape");
  await page.locator("#utility .plot").hover();
  assert.match(await page.locator("#utility .when").innerText(), /^\d\d:\d\d:\d\d$/);
});

await step("a click explains a decision", async () => {
  const row = page.locator("#decisions tr.row", { hasText: "met" }).first();
  await row.click();
  const detail = page.locator("tr.detail");
  assert.match(await detail.locator(".why").innerText(), /^(static:small chose small|The client asked for (small|large) by name)\.$/);
  const cells = await detail.locator("tbody tr").allInnerTexts();
  assert.equal(cells.length, 2);
  assert.ok(cells.some((c) => c.includes("chosen") && /ms/.test(c)), cells.join("\n"));
  assert.match(await detail.locator("dl").innerText(), /<i>an-id<\/i>/);
  assert.equal(await detail.locator("dl i").count(), 0); // text stays text
  await page.getByText(/newer decisions? held back while one is open/).waitFor();
  await accessible();
  await whole();
});

await step("a key closes it, and opens another", async () => {
  const open = page.locator('.expand[aria-expanded="true"]');
  await open.focus();
  await page.keyboard.press("Enter");
  await until(async () => assert.equal(await page.locator("tr.detail").count(), 0), "closed");
  await page.getByRole("button", { name: "Pause" }).click();
  await rows.first().locator(".expand").focus();
  await page.keyboard.press("Space");
  assert.equal(await page.locator("tr.detail").count(), 1);
  await page.getByRole("button", { name: "Paused" }).click();
  await rows.locator('.expand[aria-expanded="true"]').click();
});

await step("the policy on trial is compared", async () => {
  const panel = page.locator("#policy-panel");
  await panel.getByRole("heading", { name: "Shadow" }).waitFor();
  assert.match(await panel.innerText(), /In charge\s+static:small[\s\S]*Policy\s+near@1\s+Trained for\s+near-peak\s+Routes\s+none/);
  await until(async () => assert.match(await panel.innerText(), /Agrees\s+[\d.]+ % of [1-9]/), "an agreement");
});

await step("filters", async () => {
  await page.getByRole("button", { name: "Fallback" }).click();
  await page.getByText("None of the recent decisions is such a one.").waitFor();
  await page.getByRole("button", { name: "All", exact: true }).click();
  await rows.first().waitFor();
});

await step("a phone in the dark", async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.emulateMedia({ colorScheme: "dark" });
  await fits();
  await rows.first().locator(".expand").click();
  await fits();
  await accessible();
  await page.setViewportSize({ width: 320, height: 640 });
  await fits();
  await page.locator('.expand[aria-expanded="true"]').click();
  await page.setViewportSize({ width: 1360, height: 900 });
});

await step("a router that is gone, and comes back", async () => {
  await context.setOffline(true);
  await page.getByText("The router does not answer").waitFor();
  await page.getByText("No answer").waitFor();
  await context.setOffline(false);
  await page.getByText("Routing", { exact: true }).waitFor();
  assert.equal(await page.locator("#notice").isVisible(), false);
});

await step("without a replica that is up, by order or not, nothing is routed", async () => {
  await disguise((text) => text.replaceAll('"up":true', '"up":false').replaceAll('"drained":false', '"drained":true'));
  await page.getByText("No replica is up").waitFor();
  await page.unroute(feed);
});

await step("applications that lost their host are shown, the worst first, and the failover step by step", async () => {
  const application = (more) => ({ primary: "h1", active: "", quality: 1, full_quality: 1, backups: [], critical: false, ...more });
  const situation = {
    servers: [{ name: "h2", site: "a-site-of-a-long-name", state: "up", loaded: 4, used: { memory: 0.5, compute: 0.25 } }, { name: "h1", state: "lost", since_s: 3, loaded: 0 }], unrecovered: 1, unprotected: 2,
    counts: { affected: 3, recovered: 2, mean_recovery_ms: 41.5, false_alarms: 1 },
    applications: [
      application({ name: "fine", active: "big@h2", backups: ["small@h3"] }),
      application({ name: "exposed", active: "small@h2", quality: 0.9, unprotected: "no host has room" }),
      application({ name: "dark", quality: 0, unrecovered: "no variant fits <b>", unprotected: "no host has room" }),
    ],
    last_failover: { number: 1, server: "h1", took_ms: 60, steps: [{ at_ms: 0, kind: "lost", server: "h1", reason: "it refuses connections, as its process is gone, and has sent no heartbeat for 105 ms either" }, { at_ms: 41.5, kind: "notified", application: "exposed", variant: "small", server: "h2", took_ms: 41.5 }] },
  };
  await disguise((text) => JSON.stringify({ ...JSON.parse(text), failover: situation }));
  await page.getByText("3 applications, 1 without an answer, 2 unprotected; lost: h1").waitFor();
  assert.deepEqual(await page.locator("#applications-panel tbody th").allInnerTexts(), ["dark", "exposed", "fine"]);
  assert.match(await page.locator("#applications-panel").innerText(), /no variant fits <b>/);
  assert.match(await page.locator("#steps-panel").innerText(), /Last failover: 1, of h1[\s\S]*it refuses connections[\s\S]*small@h2/);
  await page.locator("#state.bad", { hasText: "1 application without an answer" }).waitFor();
  const top = await page.locator("#failover").evaluate((e) => e.getBoundingClientRect().top);
  assert.ok(top < (await page.locator("#tiles").evaluate((e) => e.getBoundingClientRect().top)), "an alarm comes first");
  await whole();
  await accessible();
  assert.deepEqual(await page.locator("#servers-panel tbody th").allInnerTexts(), ["h1", "h2"]);
  const orders = await ordered("failover/**");
  page.once("dialog", (d) => d.accept());
  await page.locator('[data-server="h2"]').getByRole("button", { name: "Drill" }).click();
  await page.getByText("refused for a try").first().waitFor();
  await page.getByRole("button", { name: "Fail back" }).click();
  await until(async () => assert.deepEqual(orders, ['failover/drill {"host":"h2"}', "failover/failback null"]), "orders");
  await page.unroute("**/admin/failover/**");
  await page.unroute(feed);
  await page.locator("#failover").waitFor({ state: "hidden" });
});

await step("the busiest hosts are shown with what capacity they ask for, moves and versions", async () => {
  const host = (name, utilisation) => ({ name, utilisation, replicas: [`small@${name}`] });
  const point = (ago_s) => ({ ago_s, p50: 0.3, p95: 0.6, top: 0.84, mean: 0.4 });
  const tail = {
    p50: 0.3, p95: 0.6, top: 0.84, mean: 0.4, target: 0.7, buy: 0.2, buy_if_even: -0.429,
    hosts: [host("h9", 0.84), host("h2", 0.3), host("<b>h3</b>", 0.1)], history: [point(20), point(10)],
    moves: [{ replica: "small@h9", doing: "unload" }],
    versions: [{ model: "large", version: "2", from: "1", state: "rolling", stale_s: 75, waits: "h2 is busy", changes: 1, failures: 0, rolls: 1, rollbacks: 0,
      locations: [{ host: "h9", replica: "large@gpu0", version: "1", doing: "shifts", share: 0.25, utilisation: 0.4 }] },
    { model: "tiny-model", version: "2", previous: "1", state: "steady", changes: 3, failures: 0, rolls: 1, rollbacks: 0, locations: [] }],
  };
  await disguise((text) => JSON.stringify({ ...JSON.parse(text), tail }));
  await page.getByText("of 3 hosts the busiest 5 % are 84.0 % busy").waitFor();
  assert.match(await page.locator("#tail-note").innerText(), /for 70.0 %: add 20.0 % to every host, 42.9 % of every host to spare if all/);
  await page.unroute(feed);
  await disguise((text) => JSON.stringify({ ...JSON.parse(text.replaceAll('"up":true', '"up":false')), tail }));
  await page.locator("#tail-note", { hasText: "unknown while no replica is up" }).waitFor();
  await page.unroute(feed);
  await disguise((text) => JSON.stringify({ ...JSON.parse(text), tail }));
  await page.locator("#tail-note", { hasText: "to spare if all" }).waitFor();
  assert.deepEqual(await page.locator("#tail-panel tbody th").allInnerTexts(), ["h9", "h2", "<b>h3</b>"]);
  assert.match(await page.locator("#tail-panel").innerText(), /unload small@h9/);
  assert.deepEqual(await page.locator(".replica .who").allInnerTexts(), ["small", "large, version 1"]);
  assert.match(await page.locator("#versions-panel").innerText(), /1 → 2[\s\S]*rolling[\s\S]*1 min 15 s[\s\S]*h9: shifts, 25.0 % of requests/);
  const orders = await ordered("versions/**");
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.getByText("refused for a try").first().waitFor();
  await page.getByLabel("Version of tiny-model to roll to").fill("3");
  await page.getByRole("button", { name: "Roll", exact: true }).click();
  await until(async () => assert.deepEqual(orders, ["versions/large/rollback null", 'versions/tiny-model/roll {"to":"3"}']), "orders");
  await page.unroute("**/admin/versions/**");
  await whole();
  await accessible();
  await page.unroute(feed);
});

await step("streaming clients are shown with what they lose, and the last batches of hosts", async () => {
  const client = (id, more) => ({ id, address: "10.0.0.9:1", served: true, host: "h1", model: "large", sla: 0.06, drop_rate: 0.0061, drop: 0.0412, mean_stride: 9, mean_interval: 11.2, network_ms: 18.3, results_per_second: 6, late_per_second: 0, ...more });
  const batch = (ago_ms, more) => ({ ago_ms, frames: 4, model: "small", took_ms: 33.1, ...more });
  const streams = {
    fps: 60, counts: { connected: 2000, served: 3, waiting: 1200, frames: {}, batches: 5000, late: 50, evicted: 7 }, limit: 50, total: 1203,
    hosts: [
      { name: "h1", up: true, clients: 3, room: 0.083, batches: [batch(1010), batch(900, { late_ms: 3 }), batch(800, { late_ms: 21.5, model: "large", frames: 8, took_ms: 101 }), batch(12, { took_ms: undefined })] },
      { name: "a-host-of-a-rather-long-name.rack-7.example.org", up: false, clients: 0, room: 1, batches: [] },
    ],
    clients: [client(7, { drop: 0.0712, late_per_second: 2, tenant: "warehouse <b>cameras</b>" }), client(9, {}), client(4, { drop: undefined, mean_interval: undefined, results_per_second: 0 }),
      client(11, { served: false, host: undefined, model: undefined, drop: undefined, mean_interval: undefined, why: "host h1 has no room for it any more" })],
  };
  await disguise((text) => JSON.stringify({ ...JSON.parse(text), streams }));
  await page.getByText("3 clients served, 1,200 waiting; so far 5,000 batches, 1.0 % late, 7 evictions").waitFor();
  assert.deepEqual(await page.locator("#streams-panel tbody th").allInnerTexts(), ["7, warehouse <b>cameras</b>", "9", "4", "11"]);
  assert.match(await page.locator("#streams-panel").innerText(), /the least left of their SLA first, 4 of 1,203[\s\S]*large@h1\s+0\.06\s+0\.071\s+0\.0061\s+11\.2\s+18\.3 ms\s+6\s+2[\s\S]*no room for it any more/);
  assert.deepEqual(await page.locator("#streams-panel td.warn").allInnerTexts(), ["0.071", "2", "host h1 has no room for it any more"]);
  assert.deepEqual(await page.locator(".lane p").allInnerTexts().then((l) => l.map((s) => s.replaceAll("\n", " "))),
    ["a-host-of-a-rather-long-name.rack-7.example.org takes no frames no batches", "h1 3 clients, 8.3 % free 4 batches of 5.00 frames, 1 late"]);
  const bars = await page.locator('[data-host="h1"] rect').evaluateAll((list) => list.map((r) => [r.className.baseVal, ...["x", "width", "height"].map((n) => Math.round(r.getAttribute(n)))]));
  assert.deepEqual(bars, [["", 0, 22, 14], ["", 100, 32, 14], ["late", 200, 100, 28], ["", 988, 11, 14]]);
  await whole();
  await accessible();
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible();
  await page.emulateMedia({ colorScheme: "light" });
  await page.unroute(feed);
  await page.locator("#streams").waitFor({ state: "hidden" });
});

await step("jobs, long names and an empty fleet are shown whole", async () => {
  const jobs = [{ model: "audio-visual-classifier", worker: "gpu0", waiting: 12, running: true, backlog_ms: 1234.5, slowness: 1.21, last: "3 x image-and-audio, 2 x audio", last_quality: 0.8712 }];
  await disguise((text) => {
    const data = JSON.parse(text.replaceAll('"small"', '"opt-125m-instruct-of-a-long-name"'));
    return JSON.stringify({ ...data, status: { ...data.status, jobs } });
  });
  await page.locator("#jobs-panel", { hasText: "3 x image-and-audio, 2 x audio (quality 0.87" }).waitFor();
  await whole();
  await page.unroute(feed);
  await page.locator("#jobs").waitFor({ state: "hidden" });
  await disguise((text) => {
    const data = JSON.parse(text);
    return JSON.stringify({ ...data, hosts: [], status: { ...data.status, replicas: [], variants: [], tasks: [] } });
  });
  await page.getByText("No replica is up").waitFor();
  assert.equal(await page.locator(".host").count(), 0);
  await whole();
  await accessible();
  await page.unroute(feed);
  await page.getByText("Routing", { exact: true }).waitFor();
});

await step("a router that comes back with other sizes is shown afresh to those who are signed in", async () => {
  let loads = 0;
  page.on("load", () => loads++);
  await disguise((text) => text.replaceAll('"small"', '"nano"').replaceAll('small@', 'nano@').replace('"boot":', '"boot":1'));
  await until(async () => assert.deepEqual(await page.locator(".replica .who").allInnerTexts(), ["nano", "large"]), "the new sizes");
  await page.getByText("Routing", { exact: true }).waitFor();
  await page.waitForTimeout(2500);
  assert.equal(loads, 1);
});

await step("signing out", async () => {
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
});

await step("signing in again, with other headings about hosts", async () => {
  await page.unrouteAll();
  await page.addInitScript(() => addEventListener("DOMContentLoaded", () => document.querySelector("main").insertAdjacentHTML("afterbegin", "<h2>Busiest hosts</h2>")));
  await sign(page, url, token);
  await page.getByRole("heading", { name: "Busiest hosts" }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
});

await step("nothing came from elsewhere, and nothing went wrong", async () => {
  assert.deepEqual(strangers, []);
  assert.deepEqual(faults, []);
});

await browser.close();
