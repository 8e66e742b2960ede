"""The parts of a run, in order: each writes its rows as they come, and ends when its time is up."""

import os
import shutil
import tempfile
import time

import shapes
from budget import split
from workers import Handle, Lost, Refused

# Seconds that a worker may take beyond its time before it counts as hung.
PATIENCE = 30


class Run:
    def __init__(self, plan, device, table, budget, folder):
        self.plan, self.device, self.table, self.budget, self.folder = plan, device, table, budget, folder
        self.clock = time.monotonic
        self.workers = []
        self.complete = True

    def all(self):
        """Runs all parts, and reports whether none left anything out for want of time."""
        self.start()
        for name, part in (("alone", self.alone), ("beside", self.beside), ("host", self.host), ("disk", self.disk)):
            until = self.budget.part(name)
            if not self.workers:
                break
            self.table.say(f"{name}: {until - self.clock():.0f} s at most")
            part(until)
            self.workers = [w for w in self.workers if not w.lost]
        return self.complete and len(self.workers) == len(self.plan.shapes)

    def stop(self):
        for w in self.workers:
            w.stop()

    def left_out(self, words):
        self.complete = False
        self.table.note(words)

    def ask(self, w, until, do, **command):
        """Asks a worker; what it cannot do is noted, and None returned."""
        if w.lost:
            return None
        try:
            return w.ask(self.patience(until), do, **command)
        except Refused as fault:
            self.table.note(f"{w.shape.name}: {do} left out: {fault}")
        except Lost as fault:
            self.left_out(f"{fault}; it is left out from here on")
        return None

    def patience(self, until):
        """Seconds to wait for an answer that is due: never beyond the run's end, but for what
        ending it takes."""
        return max(5.0, min(until + PATIENCE, self.budget.end()) - self.clock())

    # start

    def start(self):
        """Starts all workers at once, since most of that is Python reading PyTorch."""
        until = self.budget.part("start")
        self.table.say("starting a process for each of " + ", ".join(s.name for s in self.plan.shapes))
        begin = self.clock()
        self.workers = [Handle(shape, self.device, self.plan.half) for shape in self.plan.shapes]
        ready = []
        for w in self.workers:
            try:
                w.receive(self.patience(until))
                ready.append(w)
            except (Lost, Refused) as fault:
                self.left_out(f"{w.shape.name} did not start: {fault}")
        self.workers = ready
        for w, tokens in zip(list(self.workers), self.room(until)):
            self.build(w, tokens, until, begin)
        self.workers = [w for w in self.workers if not w.lost]

    def build(self, w, tokens, until, begin):
        """Builds a decoder. One that does not fit is stopped: nothing of it can be measured."""
        built = self.ask(w, until, "build", cache_tokens=tokens) if tokens else None
        if built is None:
            if not tokens:
                self.left_out(f"{w.shape.name}: the device's memory has no room for it")
            w.stop()
            return
        s = w.shape
        self.table.add(
            "model", model=s.name, layers=s.layers, hidden=s.hidden, heads=s.heads, feed_forward=s.feed_forward, vocabulary=s.vocabulary,
            weight_bytes=built["weight_bytes"], kv_bytes_per_token=built["kv_bytes_per_token"], cache_tokens=tokens,
            build_ms=built["build_ms"], since_start_ms=1e3 * (self.clock() - begin),
        )

    def room(self, until):
        """Tokens that each worker's KV cache may hold; 0 where not even the weights fit."""
        wanted = self.plan.most_cached()
        if self.device == "cpu":
            return [wanted] * len(self.workers)
        answer = self.ask(self.workers[0], until, "memory") if self.workers else None
        if answer is None:
            return [0] * len(self.workers)
        self.table.add("memory", gpu_memory_bytes=answer["total"])
        return room(answer["total"], [w.shape for w in self.workers], self.plan.cache_shares, wanted)

    # alone

    def alone(self, until):
        """Each decoder by itself: the others' processes are there, and idle."""
        for w, end in zip(self.workers, split(self.clock, until, len(self.workers))):
            self.cells(w, self.plan.alone, end, [])
            if self.plan.eager:
                self.cells(w, self.plan.eager, end, [], graph=False)
            peak = self.ask(w, end, "peak")
            if peak and peak["bytes"] is not None:
                self.table.add("peak", model=w.shape.name, activation_bytes=peak["bytes"])

    def cells(self, w, cells, until, neighbours, graph=True):
        """Measures cells until the time is up. Returns the windows in which it did."""
        out = []
        for i, cell in enumerate(cells):
            if self.clock() > until:
                self.left_out(f"{w.shape.name}{beside_words(neighbours)}: the last {len(cells) - i} of {len(cells)} loads left out: out of time")
                break
            answer = self.ask(w, until, "measure", cell=vars(cell), repeats=self.plan.repeats, block_s=self.plan.block_s, least_steps=self.plan.least_steps, graph=graph)
            if answer is None:
                if w.lost:
                    break
                continue
            out += [(cell, block) for block in answer["blocks"]]
            if not neighbours:
                for repeat, block in enumerate(answer["blocks"]):
                    self.row(w, cell, block, repeat, graph, None)
        return out

    def row(self, w, cell, block, repeat, graph, beside):
        load = cell.describe()
        self.table.add(
            load.pop("kind"), model=w.shape.name, **load, step_ms=block["step_ms"], gpu_ms=block["gpu_ms"], steps=block["steps"],
            repeat=repeat, graph=graph and self.device == "cuda", beside=beside,
        )

    # beside

    def beside(self, until):
        """Each decoder while one or two of the others work, all the time or half of it. Each
        has one neighbour before any has two, so that a cut run has some of both laws' cells."""
        situations = [(w, others, duty) for duty in self.plan.duties for w, others in neighbourhoods(self.workers)]
        for (w, others, duty), end in zip(situations, split(self.clock, until, len(situations))):
            if w.lost or any(o.lost for o in others):
                continue
            if self.clock() > until:
                self.left_out("loads beside neighbours: out of time")
                break
            self.situation(w, others, duty, end)

    def situation(self, w, others, duty, until):
        busy = []
        for o in others:
            if self.ask(o, until, "busy", cell=vars(self.plan.busy), duty=duty):
                busy.append(o)
        blocks = self.cells(w, self.plan.beside, until, others) if len(busy) == len(others) else []
        logs = []
        for o in busy:
            answer = self.ask(o, until, "rest")
            logs.append((o, answer["log"] if answer else []))
        for i, (cell, block) in enumerate(blocks):
            beside = [activity(o.shape.name, self.plan.busy, duty, log, block) for o, log in logs]
            self.row(w, cell, block, i % self.plan.repeats, True, beside)

    # host and disk

    def host(self, until):
        for w, end in zip(self.workers, split(self.clock, until, len(self.workers))):
            self.moved(w, self.ask(w, end, "host", repeats=2, end=end))

    def disk(self, until):
        """Loads from a file of the weights, which is written first and removed after."""
        for w, end in zip(self.workers, split(self.clock, until, len(self.workers))):
            now = self.clock()
            if end - now < 0.5:
                self.left_out(f"{w.shape.name}: no load from disk: out of time")
                continue
            handle, path = tempfile.mkstemp(prefix=f".{w.shape.name}-", suffix=".weights", dir=self.folder)
            os.close(handle)
            try:
                spare = max(0, shutil.disk_usage(self.folder).free - (2 << 30))
                answer = self.ask(
                    w, end, "disk", path=path, chunk_bytes=self.plan.chunk_bytes, most_bytes=spare,
                    write_end=now + 0.45 * (end - now), end=now + 0.8 * (end - now),
                )
            finally:
                os.unlink(path)
            self.moved(w, answer)

    def moved(self, w, answer):
        if answer is None:
            return
        for row in answer["rows"]:
            self.table.add(row.pop("kind"), model=w.shape.name, **row)
        for words in answer["notes"]:
            self.left_out(f"{w.shape.name}: {words}")
        if not answer["whole"]:
            self.left_out(f"{w.shape.name}: the weights came back changed: do not believe its loads")


def room(total, of, shares, wanted):
    """Tokens for each shape's KV cache: what nine tenths of the device's memory leave beside
    weights, contexts and workspaces, dealt out by the shares. The largest shapes go without
    where not even the weights fit."""
    context = 3 << 29  # bytes that a process takes beside its tensors
    weights = [2 * (12 * s.layers * s.hidden**2 + s.vocabulary * s.hidden) for s in of]
    fit = len(of)
    least = 0.05 * total
    while fit and 0.9 * total - sum(weights[:fit]) - fit * context < least:
        fit -= 1
    rest = 0.9 * total - sum(weights[:fit]) - fit * context
    of_all = sum(shares[:fit])
    out = [min(wanted, int(rest * shares[i] / of_all / (2 * of[i].kv_elements()))) for i in range(fit)]
    return out + [0] * (len(of) - fit)


def neighbourhoods(workers):
    """Each worker beside each other one, and then beside all others."""
    pairs = [(w, [o]) for w in workers for o in workers if o is not w]
    return pairs + [(w, [o for o in workers if o is not w]) for w in workers if len(workers) > 2]


def beside_words(neighbours):
    return " beside " + " and ".join(o.shape.name for o in neighbours) if neighbours else ""


def activity(name, cell, duty, log, block):
    """What a neighbour did while a block was timed. A step that was partly within counts for
    that part."""
    steps = device = whole = 0.0
    for begin, end, ms in log:
        within = max(0.0, min(end, block["end"]) - max(begin, block["begin"])) / max(end - begin, 1e-9)
        steps, device, whole = steps + within, device + within * ms, whole + within * 1e3 * (end - begin)
    return {
        **{k: v for k, v in cell.describe().items() if k != "kind"}, "model": name, "asked_duty": duty,
        "steps_per_s": steps / (block["end"] - block["begin"]), "step_ms": whole / steps if steps else 0.0,
        "gpu_ms": device / steps if steps else 0.0,
    }
