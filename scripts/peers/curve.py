"""Trains the DQN loop of training.py for so many seconds, acting on what it learns,
and writes its network as ONNX after each of the times given. The clock stands
while it writes. As in the preset that it is compared with, a gradient step falls
on each fourth decision; exploration ends at 30 % of the time and the learning
rate falls at half of it, so that it loses nothing by being slower."""

import argparse
import math
import pathlib
import time

import torch
from torch import nn

from bench import openblas_core
from environment import INPUTS, VARIANTS, Environment
from learner import Learner, Network, Shape
from training import REPLAY, TIME_CONSTANT, Replay

SHAPE = Shape("9-64-64-dueling-3/batch=256", INPUTS, 64, 256, 5e-4, dueling=True)
WARMUP, TRAIN_EVERY, EPISODE = 5000, 4, 20_000
EPSILON_END, EXPLORES, LAST_RATE, LAST_FROM = 0.02, 0.3, 2e-4, 0.5


def folded(network: Network) -> nn.Sequential:
    """The same values without a dueling head: V + A − mean A is linear, too."""
    *hidden, last = network.layers
    out = nn.Linear(last.in_features, VARIANTS)
    with torch.no_grad():
        mix = torch.eye(VARIANTS) - 1 / VARIANTS
        out.weight.copy_(mix @ last.weight[1:] + last.weight[:1])
        out.bias.copy_(mix @ last.bias[1:] + last.bias[:1])
    return nn.Sequential(*hidden, out)


def write(network: Network, path: pathlib.Path) -> None:
    torch.onnx.export(
        folded(network), torch.zeros(1, INPUTS), str(path), opset_version=13,
        input_names=["observation"], output_names=["values"],
        dynamic_axes={"observation": {0: "n"}, "values": {0: "n"}},
    )


class Loop:
    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.learner, self.replay = Learner(SHAPE), Replay(REPLAY)
        self.environment, self.decisions, self.seed = Environment(), 0, seed
        self.reset()

    def reset(self) -> None:
        """Begins an episode, on requests that no other episode has."""
        self.seed += 1
        self.observation = torch.tensor(self.environment.reset(self.seed)[0])

    def collect(self, epsilon: float) -> None:
        if float(torch.rand(())) < epsilon:
            action = int(torch.randint(VARIANTS, ()))
        else:
            with torch.no_grad():
                action = int(self.learner.online(self.observation.unsqueeze(0)).argmax())
        values, reward, _, _, info = self.environment.step(action)
        following = torch.tensor(values)
        self.replay.add(self.observation, action, reward, math.exp(-info["elapsed"] / TIME_CONSTANT), following)
        self.observation = following
        self.decisions += 1
        if self.decisions % EPISODE == 0:
            self.reset()

    def turn(self, share: float) -> None:
        """So many decisions and one gradient step, that share of the time gone."""
        for _ in range(TRAIN_EVERY):
            self.collect(max(EPSILON_END, 1 - (1 - EPSILON_END) * share / EXPLORES))
        if self.decisions < WARMUP:
            return
        for group in self.learner.adam.param_groups:
            group["lr"] = LAST_RATE if share > LAST_FROM else SHAPE.rate
        self.learner.step(self.replay.sample(SHAPE.batch))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=180)
    arguments.add_argument("--at", default="10,20,40,80,120,180", help="seconds after which the network is written")
    arguments.add_argument("--out", type=pathlib.Path, required=True)
    a = arguments.parse_args()
    torch.set_num_threads(1)
    print(f"blas: {openblas_core()}")
    a.out.mkdir(parents=True, exist_ok=True)
    loop, spent = Loop(1), 0.0
    for at in map(float, a.at.split(",")):
        began = time.perf_counter() - spent
        while (spent := time.perf_counter() - began) < at:
            loop.turn(spent / a.seconds)
        write(loop.learner.online, a.out / f"{at:g}.onnx")
        print(f"{at:g} s: {loop.decisions} decisions", flush=True)


if __name__ == "__main__":
    main()
