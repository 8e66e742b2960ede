// Solves programs in CPLEX LP format with HiGHS. Reads a list of {text, options} from standard
// input, and prints for each its status, its objective and the time in milliseconds.
import loadHighs from "highs";

const highs = await loadHighs();

let text = "";
for await (const part of process.stdin) text += part;
const results = JSON.parse(text).map(({ text, options }) => {
  const began = performance.now();
  const solution = highs.solve(text, options ?? {});
  return { status: solution.Status, objective: solution.ObjectiveValue, ms: performance.now() - began };
});
console.log(JSON.stringify(results));
