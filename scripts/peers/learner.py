"""The Double-DQN gradient step in PyTorch, as `BenchmarkStep` of rl/dqn takes it."""

import argparse
import copy
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench import Sequence, measure, openblas_core, report

ACTIONS = 3


@dataclass(frozen=True)
class Shape:
    name: str
    inputs: int
    hidden: int
    batch: int
    rate: float
    dueling: bool = False
    margin: float = 0.0  # of the action that the first inputs advise


SHAPES = (
    Shape("9-256-256-3/batch=1024", 9, 256, 1024, 1e-4),
    Shape("25-64-64-dueling-3/batch=256", 25, 64, 256, 5e-4, dueling=True, margin=0.03),
)


@dataclass
class Batch:
    observations: Tensor  # (batch, inputs)
    next: Tensor
    actions: Tensor  # (batch, 1)
    rewards: Tensor  # (batch,)
    discounts: Tensor  # 0 where the episode ended


class Network(nn.Module):
    """Two hidden layers; the dueling head is V + A − mean A."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.dueling = shape.dueling
        outputs = ACTIONS + shape.dueling
        self.layers = nn.Sequential(
            nn.Linear(shape.inputs, shape.hidden), nn.ReLU(),
            nn.Linear(shape.hidden, shape.hidden), nn.ReLU(),
            nn.Linear(shape.hidden, outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        q = self.layers(x)
        if not self.dueling:
            return q
        value, advantage = q[:, :1], q[:, 1:]
        return value + advantage - advantage.mean(1, keepdim=True)


class Learner:
    """Online and target networks and the step that moves them."""

    def __init__(self, shape: Shape, moved: float = 0.002, clip: float = 10) -> None:
        self.shape, self.moved, self.clip = shape, moved, clip
        self.online = Network(shape)
        self.target = copy.deepcopy(self.online)
        self.parameters = list(self.online.parameters())
        self.targets = list(self.target.parameters())
        # On a processor foreach=True is no quicker.
        self.adam = torch.optim.Adam(self.parameters, lr=shape.rate)

    def step(self, b: Batch) -> Tensor:
        with torch.no_grad():
            choice = self.online(b.next)
            if self.shape.margin:
                choice += self.shape.margin * b.next[:, :ACTIONS]
            best = choice.argmax(1, keepdim=True)
            wanted = b.rewards + b.discounts * self.target(b.next).gather(1, best).squeeze(1)
        taken = self.online(b.observations).gather(1, b.actions).squeeze(1)
        loss = F.smooth_l1_loss(taken, wanted)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, self.clip)
        self.adam.step()
        with torch.no_grad():
            torch._foreach_mul_(self.targets, 1 - self.moved)
            torch._foreach_add_(self.targets, self.parameters, alpha=self.moved)
        return loss.detach()


def draw_weights(s: Sequence, learner: Learner) -> None:
    """Go keeps a layer's weights by input, PyTorch by output."""
    with torch.no_grad():
        for layer in learner.online.layers:
            if isinstance(layer, nn.Linear):
                drawn = s.fill(layer.weight.numel(), math.sqrt(6 / layer.in_features))
                layer.weight.copy_(torch.tensor(drawn).view(layer.in_features, -1).t())
                layer.bias.zero_()
        learner.target.load_state_dict(learner.online.state_dict())


def draw_batch(s: Sequence, shape: Shape) -> Batch:
    n, floats = shape.batch, shape.batch * shape.inputs
    return Batch(
        observations=torch.tensor(s.fill(floats, 1)).view(n, -1),
        next=torch.tensor(s.fill(floats, 1)).view(n, -1),
        rewards=torch.tensor(s.fill(n, 2)),
        actions=torch.tensor([[int((s.next() + 1) / 2 * ACTIONS)] for _ in range(n)]),
        discounts=torch.tensor([0.95 if i % 10 else 0.0 for i in range(n)]),
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=1.0, help="to measure each shape for")
    seconds = arguments.parse_args().seconds
    torch.set_num_threads(1)
    print(f"blas: {openblas_core()}")
    for shape in SHAPES:
        s = Sequence(1)
        learner = Learner(shape)
        draw_weights(s, learner)
        batch = draw_batch(s, shape)
        for _ in range(50):
            loss = learner.step(batch)
        n, ns = measure(lambda: learner.step(batch), seconds)
        report("Step/" + shape.name, n, ns, check=round(loss.item() * 1e9))


if __name__ == "__main__":
    main()
