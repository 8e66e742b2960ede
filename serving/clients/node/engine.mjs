// The official OpenAI client against a router in front of an engine server:
// node engine.mjs BASE_URL ENGINE_URL prints what it saw as one JSON object. The
// engine asks for the key "sesame", and a replica takes two requests at a time.
import OpenAI from "openai";

const [baseURL, engineURL] = process.argv.slice(2);
const connect = (apiKey) => new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const client = connect("sesame");
const model = "small";
const messages = [{ role: "user", content: "how do gears turn" }];
const exactly = (n) => ({ model, messages, max_tokens: n, ignore_eos: true });
const seen = {};
const headers = { Authorization: "Bearer sesame" };

// How many requests the engine runs, once it runs as many as it should.
async function running(want) {
  for (let n, i = 0; ; i++) {
    const text = await (await fetch(engineURL + "/metrics", { headers })).text();
    n = [...text.matchAll(/^vllm:num_requests_running\{.*\} (\d+)$/gm)].reduce((sum, m) => sum + Number(m[1]), 0);
    if (n === want || i === 1000) return n;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

async function fault(text) {
  await fetch(engineURL + "/fault", { method: "POST", body: text, headers });
}

async function failure(work) {
  try {
    await work();
  } catch (e) {
    return { class: e.constructor.name, status: e.status, code: e.code, id: typeof e.requestID === "string" };
  }
}

// Streaming.
seen.stream = { pieces: 0 };
for await (const event of await client.chat.completions.create({ ...exactly(6), stream: true, stream_options: { include_usage: true } })) {
  if (event.choices[0]?.delta.content) seen.stream.pieces++;
  seen.stream.finish = event.choices[0]?.finish_reason ?? seen.stream.finish;
  seen.stream.tokens = event.usage?.completion_tokens ?? seen.stream.tokens;
}

// Tools: a call, streamed and not, and the answer to its result.
const tools = [
  {
    type: "function",
    function: {
      name: "turn",
      description: "Turns a gear.",
      parameters: { type: "object", properties: { gear: { type: "string" }, teeth: { type: "integer" } }, required: ["gear"] },
    },
  },
];
const calling = { model, messages, tools, tool_choice: "required" };
const asked = (await client.chat.completions.create(calling)).choices[0];
const call = asked.message.tool_calls[0];
const answered = await client.chat.completions.create({
  ...exactly(3),
  tools,
  messages: [...messages, asked.message, { role: "tool", tool_call_id: call.id, content: "it turns" }],
});
const assembled = (await client.chat.completions.stream({ ...calling, tool_choice: { type: "function", function: { name: "turn" } } }).finalChatCompletion())
  .choices[0];
seen.tools = {
  finish: asked.finish_reason,
  name: call.function.name,
  arguments: JSON.parse(call.function.arguments),
  then: answered.choices[0].message.content.split(" ").length,
  streamed: { name: assembled.message.tool_calls[0].function.name, arguments: JSON.parse(assembled.message.tool_calls[0].function.arguments), finish: assembled.finish_reason },
};

// Responses: the engine keeps them, and the router finds them again.
const first = await client.responses.create({ model, input: "how do gears turn", max_output_tokens: 4, ignore_eos: true });
const again = await client.responses.retrieve(first.id);
const next = await client.responses.create({ model: "auto", input: "and why", previous_response_id: first.id });
await client.responses.delete(first.id);
seen.responses = {
  same: again.id === first.id && again.output_text === first.output_text,
  input: next.usage.input_tokens,
  deleted: await failure(() => client.responses.retrieve(first.id)),
  unknown: await failure(() => client.responses.retrieve("resp_none")),
  cancel: await failure(() => client.responses.cancel(next.id)),
};

// Cancelling: leaving a stream, and aborting an answer in one piece.
seen.cancelled = {};
const left = await client.chat.completions.create({ ...exactly(5000), stream: true });
for await (const _ of left) {
  seen.cancelled.before = await running(1);
  break;
}
seen.cancelled.stream = await running(0);
const abort = new AbortController();
const aborted = failure(() => client.chat.completions.create(exactly(5000), { signal: abort.signal }));
await running(1);
abort.abort();
seen.cancelled.error = (await aborted).class;
seen.cancelled.whole = await running(0);

// Errors.
seen.errors = {
  key: await failure(() => connect("guess").chat.completions.create(exactly(1))),
  model: await failure(() => client.chat.completions.create({ model: "none", messages })),
  router: await failure(() => client.chat.completions.create(exactly(1), { headers: { "x-gearshift-task": "none" } })),
  engine: await failure(() => client.chat.completions.create({ model, messages: [] })),
};
const streams = await Promise.all([0, 1].map(() => client.chat.completions.create({ ...exactly(5000), stream: true })));
seen.errors.full = await failure(() => client.chat.completions.create(exactly(1)));
for (const s of streams) s.controller.abort();
await running(0);
await fault("error=1");
seen.errors.broken = await failure(() => client.chat.completions.create(exactly(1)));
await fault("cut=1");
seen.errors.cut = (await failure(async () => {
  for await (const _ of await client.chat.completions.create({ ...exactly(50), stream: true }));
})) !== undefined;
await fault("");
seen.after = (await client.chat.completions.create(exactly(2))).usage.completion_tokens;

console.log(JSON.stringify(seen));
