// Streams frames to a Gearshift router, which says when it wants them: docs/offload.md has the protocol.
//
//   const stream = new GearshiftStream({ sla: 0.06, capture: async (frame) => blob });
//   stream.addEventListener("result", (e) => console.log(e.detail.outputs));
//   await stream.open();
//
// Events are "place", "schedule", "result" and "error", with the router's message as their detail, and "end" with a reason.

const path = "/v1/gearshift/stream";
const weight = 0.25; // of one result in the estimate of the network's time

export class GearshiftStream extends EventTarget {
  #options; #link; #begun; #due = []; #sent = -1; #timer; #busy = false; #report; #number = 0; #over = false;
  networkMS = 0;

  // capture(frame) returns a frame as it is now, as a JPEG (Blob or ArrayBuffer) of the size that about has once the stream
  // is open. The transport is "webtransport", "websocket", or "" for the first of them that both ends have. dropRate is the
  // accuracy that the tracker loses with each frame; set it while streaming as you measure it.
  constructor({ url = location.origin, key = "", sla = 0.06, dropRate = 0, transport = "", capture }) {
    super();
    this.#options = { url: url.replace(/\/$/, ""), key, transport, capture };
    this.sla = sla;
    this.dropRate = dropRate;
  }

  // open connects, and streams until close or an "end".
  async open() {
    const { url, key, transport } = this.#options;
    const response = await fetch(`${url}${path}/about`, { headers: key ? { Authorization: `Bearer ${key}` } : {} });
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.error.message);
    this.about = answer;
    const offered = answer.webtransport && "WebTransport" in globalThis;
    if (transport === "webtransport" && !offered) throw new Error("the router or this browser has no WebTransport");
    const end = (reason) => this.#end(reason);
    const hear = (text) => this.#hear(JSON.parse(text));
    this.transport = transport || (offered ? "webtransport" : "websocket");
    this.#link = this.transport === "webtransport" ? await overWebTransport(url, key, answer.webtransport, hear, end) : await overWebSocket(url, key, hear, end);
    this.#begun = performance.now();
    this.#say({ type: "hello", sla: this.sla, fps: answer.fps, frame: 0, drop_rate: this.dropRate || undefined });
    this.#report = setInterval(() => this.#say({ type: "report", drop_rate: this.dropRate || undefined, network_ms: Math.min(this.networkMS, 250) || undefined }), 1000);
  }

  close() {
    this.#end("closed");
    this.#link?.close();
  }

  // frame returns the number of the newest frame.
  get frame() { return Math.floor((performance.now() - this.#begun) * this.about.fps / 1000); }

  #say(message) { if (!this.#over) this.#link.say(JSON.stringify(message)); }

  #end(reason) {
    if (this.#over) return;
    this.#over = true;
    clearInterval(this.#report);
    clearTimeout(this.#timer);
    this.dispatchEvent(new CustomEvent("end", { detail: reason }));
  }

  #hear(message) {
    if (this.#over) return;
    if (message.type === "schedule") {
      if (message.n < this.#number) return; // it was overtaken
      this.#number = message.n;
      this.#due = message.frames ?? [];
      this.#next();
    } else if (message.type === "place") {
      this.#number = message.n;
      if (!message.served) this.#due = [];
    } else if (message.type === "result") {
      message.latency_ms = performance.now() - this.#begun - message.captured_us / 1000;
      const network = Math.max(0, message.latency_ms - (message.queue_ms ?? 0) - (message.inference_ms ?? 0));
      this.networkMS += (this.networkMS ? weight : 1) * (network - this.networkMS);
    }
    this.dispatchEvent(new CustomEvent(message.type, { detail: message }));
  }

  // next waits for the next frame of the schedule, and sends it: or the newest, if that is past.
  #next() {
    clearTimeout(this.#timer);
    this.#due = this.#due.filter((d) => d.frame > this.#sent);
    if (this.#over || this.#busy || this.#due.length === 0) return;
    const at = this.#begun + this.#due[0].frame * 1000 / this.about.fps;
    this.#timer = setTimeout(() => this.#send(), Math.max(0, at - performance.now()));
  }

  async #send() {
    const now = performance.now() - this.#begun;
    const frame = Math.max(this.frame, 0);
    if (frame < this.#due[0].frame) return this.#next(); // timers may be early
    this.#sent = frame;
    this.#busy = true;
    try {
      const picture = await this.#options.capture(frame);
      const header = new DataView(new ArrayBuffer(16));
      header.setBigUint64(0, BigInt(frame));
      header.setBigUint64(8, BigInt(Math.round(now * 1000)));
      if (!this.#over) await this.#link.send(new Uint8Array(await new Blob([header, picture]).arrayBuffer()));
    } catch (e) {
      this.#end(String(e));
    }
    this.#busy = false;
    this.#next();
  }
}

async function overWebSocket(url, key, hear, end) {
  const socket = new WebSocket(url.replace(/^http/, "ws") + path, key ? ["gearshift", `gearshift.key.${key}`] : ["gearshift"]);
  socket.binaryType = "arraybuffer";
  socket.onmessage = (e) => hear(e.data);
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onclose = () => reject(new Error("the router refuses the WebSocket"));
  });
  socket.onclose = (e) => end(`closed by the router (${e.code})`);
  return { say: (text) => socket.send(text), send: (frame) => socket.send(frame), close: () => socket.close() };
}

async function overWebTransport(url, key, { port, certificate_sha256: hash }, hear, end) {
  const hashes = hash ? { serverCertificateHashes: [{ algorithm: "sha-256", value: Uint8Array.from(hash.match(/../g), (x) => parseInt(x, 16)) }] } : {};
  const transport = new WebTransport(`https://${new URL(url).hostname}:${port}${path}${key ? `?key=${encodeURIComponent(key)}` : ""}`, hashes);
  await transport.ready;
  transport.closed.then((e) => end(`closed by the router (${e.closeCode})`), (e) => end(String(e)));
  const control = await transport.createBidirectionalStream();
  const words = control.writable.getWriter();
  const decoder = new TextDecoder();
  read(transport.datagrams.readable, (datagram) => hear(decoder.decode(datagram))).catch(() => {}); // closed says why
  let rest = "";
  read(control.readable.pipeThrough(new TextDecoderStream()), (text) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    lines.forEach(hear);
  }).then(() => transport.close(), () => {}); // the router has said all
  let older;
  return {
    say: (text) => words.write(new TextEncoder().encode(text + "\n")).catch(() => {}),
    send: async (frame) => {
      older?.abort().catch(() => {}); // if it is still on its way
      const stream = await transport.createUnidirectionalStream().catch(() => null);
      if (!stream) return; // too many are open: the frame is lost, and "closed" says so if the session is
      const writer = older = stream.getWriter();
      writer.write(frame).then(() => writer.close()).catch(() => {});
    },
    close: () => transport.close(),
  };
}

async function read(stream, take) {
  for (const reader = stream.getReader(); ;) {
    const { value, done } = await reader.read();
    if (done) return;
    take(value);
  }
}
