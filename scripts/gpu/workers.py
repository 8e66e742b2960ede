"""Starts the workers, and speaks to them."""

import multiprocessing
import time

import worker


class Lost(Exception):
    """A worker that died, or that did not answer in time and was ended."""


class Refused(Exception):
    """A command that a worker could not carry out; it goes on."""


class Handle:
    """A worker as its parent sees it."""

    def __init__(self, shape, device, half):
        context = multiprocessing.get_context("spawn")
        self.shape, self.lost, self.number = shape, False, 0
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=worker.serve, args=(other, shape, device, half), daemon=True, name=shape.name)
        self.process.start()
        other.close()

    def receive(self, patience):
        """The answer to the last command, within so many seconds."""
        end = time.monotonic() + max(0, patience)
        try:
            while True:
                if not self.pipe.poll(max(0, end - time.monotonic())):
                    raise Lost(f"{self.shape.name}: no answer within {patience:.0f} s")
                answer = self.pipe.recv()
                if answer["number"] == self.number:
                    break
        except (EOFError, OSError) as fault:
            self.end()
            raise Lost(f"{self.shape.name}: its process ended with status {self.process.exitcode}") from fault
        except Lost:
            self.end()
            raise
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def send(self, do, **command):
        self.number += 1
        try:
            self.pipe.send({"do": do, "number": self.number, **command})
        except (BrokenPipeError, OSError) as fault:
            self.end()
            raise Lost(f"{self.shape.name}: its process is gone") from fault

    def ask(self, patience, do, **command):
        self.send(do, **command)
        return self.receive(patience)

    def end(self):
        """Ends this worker's process, which is ours."""
        self.lost = True
        if self.process.is_alive():
            self.process.terminate()
        self.process.join(5)

    def stop(self):
        if self.lost:
            return
        try:
            self.send("stop")
        except Lost:
            return
        self.process.join(10)
        self.end()
