"""A plain DQN loop in PyTorch over the Gymnasium-style environment: one gradient
step for each decision, past a warm-up. It is plainer than rl.Train, which joins
each utility to the decision that earned it, centres rewards and averages weights;
here a transition's reward is what ended before the next decision."""

import argparse
import math
import time

import torch

from bench import Sequence, openblas_core, report
from environment import INPUTS, VARIANTS, Environment
from learner import Batch, Learner, Shape

WARMUP, REPLAY, EPSILON, TIME_CONSTANT = 2000, 100_000, 0.02, 15.0
SEED = 3  # its load is about the same in the warm-up and after

# Each with how many decisions are measured: as many as of ours, so that both play
# the same requests.
SHAPES = (
    (Shape("9-256-256-3/batch=1024", INPUTS, 256, 1024, 1e-4), 200),
    (Shape("9-64-64-dueling-3/batch=256", INPUTS, 64, 256, 5e-4, dueling=True), 1000),
)


class Replay:
    """The last transitions, as tensors."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self.size, self.at = capacity, 0, 0
        self.observations = torch.zeros(capacity, INPUTS)
        self.next = torch.zeros(capacity, INPUTS)
        self.actions = torch.zeros(capacity, 1, dtype=torch.int64)
        self.rewards = torch.zeros(capacity)
        self.discounts = torch.zeros(capacity)

    def add(self, observation: torch.Tensor, action: int, reward: float, discount: float, following: torch.Tensor) -> None:
        i = self.at
        self.observations[i], self.next[i] = observation, following
        self.actions[i, 0], self.rewards[i], self.discounts[i] = action, reward, discount
        self.at = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n: int) -> Batch:
        i = torch.randint(self.size, (n,))
        return Batch(self.observations[i], self.next[i], self.actions[i], self.rewards[i], self.discounts[i])


class Loop:
    def __init__(self, shape: Shape) -> None:
        self.learner, self.replay = Learner(shape), Replay(REPLAY)
        self.environment, self.routes, self.chance = Environment(), Sequence(2), Sequence(3)
        self.observation = torch.tensor(self.environment.reset(SEED)[0])

    def choose(self) -> int:
        if (self.chance.next() + 1) / 2 < EPSILON:
            return int((self.chance.next() + 1) / 2 * VARIANTS)
        with torch.no_grad():
            return int(self.learner.online(self.observation.unsqueeze(0)).argmax())

    def collect(self) -> None:
        """One decision. The environment takes a scripted action in place of the
        chosen one, so that all sides simulate the same whatever they learn."""
        action = self.choose()
        values, reward, terminated, _, info = self.environment.step(int((self.routes.next() + 1) / 2 * VARIANTS))
        following = torch.tensor(values)
        discount = 0.0 if terminated else math.exp(-info["elapsed"] / TIME_CONSTANT)
        self.replay.add(self.observation, action, reward, discount, following)
        self.observation = following

    def learn(self) -> None:
        self.learner.step(self.replay.sample(self.learner.shape.batch))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--two-cores", action="store_true", help="the large shape alone, on two threads")
    two = parser.parse_args().two_cores
    torch.set_num_threads(2 if two else 1)
    torch.manual_seed(1)
    print(f"blas: {openblas_core()}")
    for shape, decisions in SHAPES[:1] if two else SHAPES:
        loop = Loop(shape)
        for _ in range(WARMUP):
            loop.collect()
        for _ in range(3):
            loop.learn()
        began = time.perf_counter()
        for _ in range(decisions):
            loop.collect()
            loop.learn()
        seconds = time.perf_counter() - began
        report("Training/" + ("two-cores/" if two else "") + shape.name, decisions, seconds / decisions * 1e9, decisions_per_s=decisions / seconds)


if __name__ == "__main__":
    main()
