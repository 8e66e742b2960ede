// The official OpenAI client against a router: node client.mjs BASE_URL
// prints what it saw as one JSON object.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "unused", maxRetries: 0 });
const messages = [{ role: "user", content: "how do gears turn" }];
const seen = {};

seen.models = (await client.models.list()).data.map((m) => m.id);
seen.model = (await client.models.retrieve("auto")).object;

const { data: chat, response } = await client.chat.completions
  .create({ model: "auto", messages, max_tokens: 5, ignore_eos: true, metadata: { task: "search" } })
  .withResponse();
seen.chat = {
  role: chat.choices[0].message.role,
  words: chat.choices[0].message.content.split(" ").length,
  finish: chat.choices[0].finish_reason,
  usage: chat.usage,
  variant: response.headers.get("x-gearshift-variant"),
};

const stream = await client.chat.completions.create(
  { model: "large", messages, max_tokens: 6, ignore_eos: true, stream: true, stream_options: { include_usage: true } },
  { headers: { "x-gearshift-task": "chat" } },
);
seen.stream = { pieces: 0, text: "" };
for await (const event of stream) {
  const delta = event.choices[0]?.delta;
  seen.stream.role ??= delta?.role;
  if (delta?.content) {
    seen.stream.pieces++;
    seen.stream.text += delta.content;
  }
  seen.stream.finish = event.choices[0]?.finish_reason ?? seen.stream.finish;
  seen.stream.usage = event.usage ?? seen.stream.usage;
}

// The helper that assembles a whole answer from the events is the strictest
// reader of them.
const final = await client.chat.completions
  .stream({ model: "auto", messages, max_tokens: 4, ignore_eos: true })
  .finalChatCompletion();
seen.assembled = final.choices[0].message.content.split(" ").length;

const completion = await client.completions.create({ model: "auto", prompt: "once upon", max_tokens: 3, ignore_eos: true });
seen.completion = completion.choices[0].text.split(" ").length;

// Leaving in the middle of an answer.
const left = await client.chat.completions.create({ model: "auto", messages, max_tokens: 1000, ignore_eos: true, stream: true });
for await (const _ of left) break;

seen.errors = {};
for (const [name, body, headers] of [
  ["model", { model: "none", messages }],
  ["task", { model: "auto", messages }, { "x-gearshift-task": "none" }],
  ["deadline", { model: "auto", messages }, { "x-llm-d-slo-tpot-ms": "-1" }],
]) {
  try {
    await client.chat.completions.create(body, { headers });
  } catch (e) {
    seen.errors[name] = { class: e.constructor.name, status: e.status, code: e.code, param: e.param, id: e.requestID !== null };
  }
}

console.log(JSON.stringify(seen));
