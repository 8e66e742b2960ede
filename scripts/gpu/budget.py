"""The time that a run may take, and what of it a part gets."""

import time


class Budget:
    """Deals out the time that is left. A part that ends early leaves its time to those after
    it, and one that overran takes it from them."""

    def __init__(self, seconds, shares, start=None, clock=time.monotonic):
        self.clock, self.seconds = clock, seconds
        self.start = clock() if start is None else start
        self.shares = dict(shares)

    def elapsed(self):
        return self.clock() - self.start

    def end(self):
        """When all must be over, by the clock."""
        return self.start + self.seconds

    def part(self, name):
        """When a part has to end. Its share is of what is left to it and the parts after it."""
        left = max(0.0, self.end() - self.clock())
        rest = sum(self.shares.values())
        share = self.shares.pop(name)
        return self.clock() + left * share / rest


def split(clock, until, parts):
    """Yields when each of so many parts has to end, so that those to come have as much."""
    for left in range(parts, 0, -1):
        yield clock() + max(0.0, until - clock()) / left
