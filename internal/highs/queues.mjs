// Solves queues of jobs as integer programs, with HiGHS. Reads a list of queues, as
// `gearshift modality plan` has them, from standard input, their jobs in order of deadline,
// each with the ids that a plan keeps. Prints for each queue the best objective of those
// jobs, which of the others could have been kept with those kept before them, and the time
// in milliseconds.
//
// The program is written from the definition: a binary for each job, option and batch.
import loadHighs from "highs";

const highs = await loadHighs();

// program is the text of the queue's program in CPLEX LP format.
function program(queue, jobs) {
  const objective = [], rows = [], binaries = [], spent = [];
  jobs.forEach((job, j) => {
    const all = [], quality = [];
    queue.options.forEach((option, o) => {
      const once = [];
      option.latency.slice(0, job.size).forEach((latency, i) => {
        const batch = i + 1;
        if (queue.mixing === "uniform" && batch !== job.size) return;
        const x = `x_${j}_${o}_${batch}`;
        binaries.push(x);
        once.push(x);
        all.push(`${batch} ${x}`);
        quality.push(`${option.quality * batch} ${x}`);
        spent.push(`${latency} ${x}`);
      });
      if (once.length > 1) rows.push(`once_${j}_${o}: ${once.join(" + ")} <= 1`);
    });
    rows.push(`size_${j}: ${all.join(" + ")} = ${job.size}`);
    rows.push(`floor_${j}: ${quality.join(" + ")} >= ${job.min_quality * job.size}`);
    rows.push(`deadline_${j}: ${spent.join(" + ")} <= ${job.deadline - queue.free_at}`);
    objective.push(...quality);
  });
  return `Maximize\n obj: ${objective.join(" + ")}\nSubject To\n ${rows.join("\n ")}\nBinary\n ${binaries.join(" ")}\nEnd\n`;
}

// best is the objective of the jobs; null if their deadlines cannot all be kept.
function best(queue, jobs) {
  if (jobs.length === 0) return 0;
  const solution = highs.solve(program(queue, jobs), { mip_rel_gap: 0, mip_abs_gap: 1e-9 });
  return solution.Status === "Optimal" ? solution.ObjectiveValue : null;
}

let text = "";
for await (const part of process.stdin) text += part;
const results = JSON.parse(text).map((queue) => {
  const kept = new Set(queue.kept);
  const began = performance.now();
  const objective = best(queue, queue.jobs.filter((job) => kept.has(job.id)));
  const ms = performance.now() - began;
  const missed = [], before = [];
  for (const job of queue.jobs) {
    if (kept.has(job.id)) before.push(job);
    else if (best(queue, [...before, job]) !== null) missed.push(job.id);
  }
  return { objective, missed, ms };
});
console.log(JSON.stringify(results));
