"""The decoders that are measured, and the loads that each is measured under."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shape:
    """A decoder of OPT's kind: learned positions, ReLU, the embedding tied to the output."""

    name: str
    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int = 50272
    positions: int = 2050

    @property
    def width(self):
        """Width of a head."""
        return self.hidden // self.heads

    def kv_elements(self):
        """Numbers that one cached token takes, keys and values of all layers."""
        return 2 * self.layers * self.hidden


@dataclass(frozen=True)
class Cell:
    """A load: a decode step of `batch` sequences with `context` tokens each, or, without a
    context, the prefill of one prompt of `tokens`."""

    batch: int = 1
    context: int = 0
    tokens: int = 0

    @property
    def prefill(self):
        return self.context == 0

    def cached(self):
        """Tokens of the KV cache that it takes."""
        return self.tokens if self.prefill else self.batch * self.context

    def describe(self):
        if self.prefill:
            return {"kind": "prefill", "tokens": self.tokens}
        return {"kind": "decode", "batch": self.batch, "context": self.context}


@dataclass(frozen=True)
class Plan:
    """What is measured on a kind of device. Lists are in order of importance: what comes last
    is left out first when time is short."""

    shapes: tuple
    alone: tuple
    beside: tuple
    busy: Cell
    # Shares of the time for which a busy neighbour loads the device when it is alone. One
    # alone could not tell time slicing from a large contention.
    duties: tuple
    eager: tuple
    # Device memory for KV caches, relative to each other.
    cache_shares: tuple
    block_s: float  # of one timed block of steps
    repeats: int
    least_steps: int
    chunk_bytes: int  # read from disk at once
    half: bool

    def most_cached(self):
        """Tokens of the largest KV cache that a cell takes."""
        return max(c.cached() for c in self.alone + self.beside + (self.busy,))


def cells(batches, contexts, prompts):
    """Prompts and batches alternate, so that a run that is cut has some of both."""
    decode = [Cell(batch=b, context=c) for c in contexts for b in batches]
    prefill = [Cell(tokens=n) for n in prompts]
    out = []
    while decode or prefill:
        out += decode[:3] + prefill[:1]
        decode, prefill = decode[3:], prefill[1:]
    return tuple(out)


OPT = (
    Shape("opt-125m", 12, 768, 12, 3072),
    Shape("opt-1.3b", 24, 2048, 32, 8192),
    Shape("opt-6.7b", 32, 4096, 32, 16384),
)

TINY = (
    Shape("tiny-small", 2, 64, 2, 256, 512, 130),
    Shape("tiny-medium", 3, 128, 4, 512, 512, 130),
    Shape("tiny-large", 4, 192, 4, 768, 512, 130),
)

ACCELERATOR = Plan(
    shapes=OPT,
    alone=cells((1, 8, 32, 4, 16, 64, 2), (512, 128, 1024), (128, 1024, 16, 512, 2048, 256, 64)),
    beside=(Cell(batch=8, context=512), Cell(tokens=512), Cell(batch=1, context=128), Cell(batch=32, context=512)),
    busy=Cell(batch=8, context=512),
    duties=(1.0, 0.5),
    eager=(Cell(batch=1, context=128), Cell(batch=8, context=512), Cell(tokens=128)),
    cache_shares=(0.06, 0.26, 0.68),
    block_s=0.15,
    repeats=3,
    least_steps=8,
    chunk_bytes=64 << 20,
    half=True,
)

PROCESSOR = Plan(
    shapes=TINY,
    alone=cells((1, 4, 2), (64, 16), (16, 64, 32)),
    beside=(Cell(batch=4, context=64), Cell(tokens=64)),
    busy=Cell(batch=4, context=64),
    duties=(1.0, 0.5),
    eager=(),
    cache_shares=(0.2, 0.3, 0.5),
    block_s=0.02,
    repeats=2,
    least_steps=4,
    chunk_bytes=1 << 18,
    half=False,
)
