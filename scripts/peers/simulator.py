"""A plain port of the simulator (env/engine, router/profile): hosts whose engines
batch continuously, one event for each engine iteration, with Go's own algorithm
(ends, lengths and KV blocks follow from an engine's decode count) and without
what the comparison does not need: chunked prefill, cancelling, host losses, first
tokens, checks. Go's benchmark and this one play the same requests, and the sum of
the times at which they end must be equal."""

import heapq
from collections import deque
from dataclasses import dataclass, field

BLOCK, MAX_SEQUENCES, MAX_BATCH_TOKENS = 16, 256, 2560
WATERMARK = 0.01


@dataclass(frozen=True)
class Profile:
    """The cost of an iteration in ms; see router/profile."""

    launch_floor: float
    weights: float
    token: float
    context: float
    kv_tokens: int
    growth: float = 0.003
    overhead: float = 1.5
    sequence: float = 0.2
    contention: float = 0.15

    def step(self, tokens: int, sequences: int, context: int, neighbours: float) -> tuple[float, float]:
        """The iteration's time, and the share of it that loads the GPU."""
        arithmetic = tokens * self.token
        read = min(self.weights * (1 + self.growth * (tokens - 1)), self.weights + arithmetic)
        gpu = max(arithmetic, read) + context * self.context
        ms = max(self.launch_floor, gpu * (1 + self.contention * neighbours)) + self.overhead + sequences * self.sequence
        return ms, gpu / ms


# OPT-125M, OPT-1.3B and OPT-6.7B of titan-rtx-opt, with the cache that their share
# of 24 GiB leaves.
PROFILES = (
    Profile(3.24, 0.636, 0.0035, 0.0001219, 21376),
    Profile(6.48, 6.69, 0.0368, 0.0006502, 11296),
    Profile(8.64, 33.83, 0.186, 0.0017338, 10528),
)
HOSTS, VARIANTS = 4, len(PROFILES)


def blocks_for(tokens: int) -> int:
    return (tokens + BLOCK - 1) // BLOCK


@dataclass(slots=True)
class Request:
    decision: int
    variant: int
    task: int
    arrival: int  # ns
    prompt: int
    output: int
    generated: int = 0
    joined: int = 0  # the engine's decode count when it began to decode
    order: int = 0  # of admission
    finished: int = 0  # ns


@dataclass(slots=True)
class Engine:
    """One replica. A step is planned by begin and applied by finish."""

    profile: Profile
    blocks: int
    free: int
    waiting: deque[Request] = field(default_factory=deque)
    running: list[tuple[int, int, Request]] = field(default_factory=list)  # heap by end, order
    boundary: list[int] = field(default_factory=lambda: [0] * BLOCK)
    context: int = 0
    decodes: int = 0
    admitted: int = 0
    busy: bool = False
    decoding: bool = False
    duty: float = 0.0
    joining: list[Request] = field(default_factory=list)

    def begin(self, neighbours: float) -> float:
        """Plans a step and returns its time in ms, 0 if there is nothing to do."""
        tokens = self.admit()
        sequences, context, self.decoding = len(self.joining), 0, False
        if not sequences:
            self.make_room()
            sequences = tokens = len(self.running)
            if not sequences:
                return 0.0
            self.free -= self.boundary[self.decodes % BLOCK]
            self.decoding, context = True, self.context
        self.busy = True
        ms, self.duty = self.profile.step(tokens, sequences, context, neighbours)
        return ms

    def admit(self) -> int:
        """Starts prompts, first come first served; returns their tokens."""
        budget, total = MAX_BATCH_TOKENS, 0
        while self.waiting:
            head = self.waiting[0]
            tokens = head.prompt + head.generated
            if tokens > budget and self.joining or not self.admits(tokens):
                break
            self.waiting.popleft()
            self.admitted += 1
            head.order = self.admitted
            self.free -= blocks_for(tokens)
            self.joining.append(head)
            total += tokens
            budget -= tokens
            if budget <= 0:
                break
        return total

    def admits(self, tokens: int) -> bool:
        active = len(self.running) + len(self.joining)
        if active >= MAX_SEQUENCES:
            return False
        left = self.free - blocks_for(tokens)
        return left >= (int(WATERMARK * self.blocks) if active else 0)

    def make_room(self) -> None:
        """Sends the newest back to wait while a decode step lacks KV blocks."""
        while self.boundary[self.decodes % BLOCK] > self.free:
            newest = max(range(len(self.running)), key=lambda i: self.running[i][1])
            request = self.running[newest][2]
            self.running[newest] = self.running[-1]
            self.running.pop()
            heapq.heapify(self.running)
            self.leave(request)
            self.waiting.appendleft(request)

    def finish(self) -> list[Request]:
        """Applies the step in progress; returns the requests that ended."""
        self.busy, self.duty = False, 0.0
        if self.decoding:
            self.decodes += 1
            self.context += len(self.running)
        ended: list[Request] = []
        while self.running and self.running[0][0] == self.decodes:
            request = heapq.heappop(self.running)[2]
            self.leave(request)
            ended.append(request)
        for request in self.joining:
            self.join(request, ended)
        self.joining.clear()
        return ended

    def join(self, request: Request, ended: list[Request]) -> None:
        """The prefill has yielded a token; from now on the request decodes."""
        request.generated += 1
        if request.generated == request.output:
            self.free += blocks_for(request.prompt + request.generated - 1)
            ended.append(request)
            return
        request.joined = self.decodes
        end = self.decodes + request.output - request.generated
        self.context += request.prompt + request.generated
        self.boundary[self.boundary_of(request)] += 1
        heapq.heappush(self.running, (end, request.order, request))

    def boundary_of(self, request: Request) -> int:
        """The residue of the decode counts at which it needs a new block."""
        return (request.joined - (request.prompt + request.generated - 1)) % BLOCK

    def leave(self, request: Request) -> None:
        self.boundary[self.boundary_of(request)] -= 1
        request.generated += self.decodes - request.joined
        self.context -= request.prompt + request.generated
        self.free += blocks_for(request.prompt + request.generated - 1)


class Simulator:
    """All hosts. Replica v·HOSTS + h is variant v on host h."""

    def __init__(self) -> None:
        self.engines = [Engine(p, p.kv_tokens // BLOCK, p.kv_tokens // BLOCK) for p in PROFILES for _ in range(HOSTS)]
        self.events: list[tuple[int, int, int]] = []  # heap of (ns, host, variant)
        self.in_flight = [0] * len(self.engines)
        self.now = 0

    def submit(self, request: Request, replica: int) -> None:
        self.in_flight[replica] += 1
        self.engines[replica].waiting.append(request)
        if not self.engines[replica].busy:
            self.begin(replica % HOSTS, replica // HOSTS, request.arrival)

    def begin(self, host: int, variant: int, now: int) -> None:
        """Begins a step; the host's busy engines slow it."""
        neighbours = 0.0
        for other in range(VARIANTS):
            if other != variant:
                neighbours += self.engines[other * HOSTS + host].duty
        ms = self.engines[variant * HOSTS + host].begin(neighbours)
        if ms:
            heapq.heappush(self.events, (now + int(ms * 1e6), host, variant))

    def advance(self, until: float) -> list[Request]:
        """Processes the events up to then; returns the requests that ended."""
        done: list[Request] = []
        while self.events and self.events[0][0] <= until:
            at, host, variant = heapq.heappop(self.events)
            replica = variant * HOSTS + host
            self.now = at
            for request in self.engines[replica].finish():
                request.finished = at
                self.in_flight[replica] -= 1
                done.append(request)
            self.begin(host, variant, at)
        return done
