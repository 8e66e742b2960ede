"""A process of its own for each decoder, as each engine on a shared device is one. It
answers one command at a time, which come over a pipe."""

import sys
import time

import shapes


# Seconds of steps before any is timed: clocks rise, and caches fill.
WARM_S = 0.03


def serve(pipe, shape, device_name, half):
    """Runs a worker until it is told to stop, or whoever started it is gone."""
    try:
        import torch

        if device_name == "cpu":
            torch.set_num_threads(1)
        worker = Worker(pipe, shape, torch.device(device_name), torch.float16 if half else torch.float32)
        worker.answer({"ready": True})
        while True:
            command = worker.next()
            if command["do"] == "stop":
                return
            try:
                with torch.inference_mode():
                    worker.answer(getattr(worker, "do_" + command["do"])(command))
            except Exception as fault:  # a cell may not fit: the others are measured all the same
                worker.answer({"error": one_line(fault)})
    except (EOFError, KeyboardInterrupt, BrokenPipeError):
        pass


def one_line(fault):
    words = str(fault).strip().splitlines()
    return f"{type(fault).__name__}: {words[0] if words else ''}"


class Worker:
    def __init__(self, pipe, shape, device, dtype):
        self.pipe, self.shape, self.device, self.dtype = pipe, shape, device, dtype
        self.number = 0

    def next(self):
        command = self.pipe.recv()
        self.number = command["number"]
        return command

    def answer(self, words):
        """Answers the last command: its number tells a late answer from the awaited one."""
        self.pipe.send({"number": self.number, **words})

    def do_memory(self, _):
        """Bytes of the device's memory in all, or None on a processor."""
        import torch

        if self.device.type != "cuda":
            return {"total": None}
        return {"total": torch.cuda.mem_get_info()[1]}

    def do_build(self, command):
        from decoder import Decoder
        from moves import fingerprint

        start = time.perf_counter()
        self.decoder = Decoder(self.shape, self.device, self.dtype, command["cache_tokens"])
        self.synchronize()
        self.fingerprint = fingerprint(self.decoder)
        if self.device.type == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats()  # the fingerprint is no part of a step
        return {
            "weight_bytes": self.decoder.weight_bytes(), "kv_bytes_per_token": self.decoder.kv_bytes_per_token(),
            "cache_tokens": self.decoder.cache_tokens, "build_ms": 1e3 * (time.perf_counter() - start),
        }

    def synchronize(self):
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize()

    def do_measure(self, command):
        """Times blocks of steps of a cell, each for so long and at least so many steps."""
        step = self._step(command)
        blocks = []
        for _ in range(command["repeats"]):
            blocks.append(self._block(step, command["block_s"], command["least_steps"]))
        return {"blocks": blocks}

    def _step(self, command):
        from decoder import Step

        step = Step(self.decoder, shapes.Cell(**command["cell"]), command.get("graph", True))
        begin, warm = time.monotonic(), 0
        while warm < 2 or time.monotonic() - begin < WARM_S:
            step.time()
            warm += 1
        return step

    @staticmethod
    def _block(step, seconds, least):
        begin, steps, whole, device = time.monotonic(), 0, 0.0, 0.0
        while steps < least or time.monotonic() - begin < seconds:
            a, b = step.time()
            steps, whole, device = steps + 1, whole + a, device + b
        return {"begin": begin, "end": time.monotonic(), "steps": steps, "step_ms": whole / steps, "gpu_ms": device / steps}

    def do_busy(self, command):
        """Runs steps of a cell until anything is sent, with such rests that alone it would
        load the device for the given share of the time. Returns when each step began and ended, by
        the clock that all processes share, and the device's part of it in ms."""
        step = self._step(command)
        alone = sum(step.time()[1] for _ in range(4)) / 4
        rest = alone / 1e3 * (1 / command["duty"] - 1)
        self.answer({"busy": True})
        log = []
        while not self.pipe.poll():
            begin = time.monotonic()
            device = step.time()[1]
            log.append((begin, time.monotonic(), device))
            if rest > 0:
                time.sleep(rest)
        if self.next()["do"] == "stop":
            sys.exit()
        return {"log": log}

    def do_rest(self, _):
        """Answers who stops a worker that could not go on."""
        return {"log": []}

    def do_peak(self, _):
        """The most memory that was in use at once beyond weights and KV cache."""
        if self.device.type != "cuda":
            return {"bytes": None}
        import torch

        return {"bytes": torch.cuda.max_memory_allocated() - self.decoder.weight_bytes() - self.decoder.cache_bytes()}

    def do_host(self, command):
        import moves

        return moves.host(self, command["repeats"], command["end"])

    def do_disk(self, command):
        import moves

        return moves.disk(self, command["path"], command["chunk_bytes"], command["most_bytes"], command["write_end"], command["end"])
