#!/usr/bin/env python3
"""Print the scenario of a pool of N replicas, a multiple of four: docs/scenarios/pool.yaml is that of four.

    scripts/pool.py 40 > pool-40.yaml
    scripts/pool.py 40 --present 4 > pool-40-of-4.yaml   # 36 of the 40 are not loaded
"""
import argparse

# variant, card
KINDS = [("small", "l4"), ("medium", "l4"), ("medium", "a100"), ("large", "a100")]
CARDS = {"l4": "24GiB, compute: 121, bandwidth: 300", "a100": "40GiB, compute: 312, bandwidth: 1555"}
# weights, new tokens and cached tokens, in ms on an L4, and in bytes
SIZES = {
    "small": (1.274, 9.92, 0.02616, 0.000275, 1_740_948_429, 37_125),
    "medium": (1.676, 25.22, 0.0665, 0.0005029, 4_425_448_785, 67_896),
    "large": (2.346, 105.0, 0.2769, 0.001214, 18_427_896_950, 163_933),
}
COMPUTE = {"l4": 1, "a100": 121 / 312}
BANDWIDTH = {"l4": 1, "a100": 300 / 1555}

HEAD = """\
# A pool of {n} replicas, each on a card of its own, of three sizes on two kinds of cards. Printed by
# scripts/pool.py {args}. No engine was measured; results are simulated under this profile.
name: pool-{name}

tasks:
  - {{name: chat, deadline_ms: 45, decay: soft, quality: {{small: 0.72, medium: 0.88, large: 1}}}}
  - {{name: code, deadline_ms: 60, decay: hard, weight: 1.3, quality: {{small: 0.55, medium: 0.81, large: 1}}}}
  - {{name: summary, deadline_ms: 90, decay: hard, weight: 0.8, quality: {{small: 0.84, medium: 0.94, large: 1}}}}

variants:
  - {{name: small{small}}}
  - {{name: medium{medium}}}
  - {{name: large{large}}}
"""

TAIL = """\
workload:
  task_lengths:
    chat: {prompt_tokens: {distribution: uniform, min: 28, max: 220}, output_tokens: {distribution: geometric, mean: 150, max: 600}}
    code: {prompt_tokens: {distribution: uniform, min: 98, max: 786}, output_tokens: {distribution: geometric, mean: 345, max: 1378}}
    summary: {prompt_tokens: {distribution: uniform, min: 300, max: 1200}, output_tokens: {distribution: geometric, mean: 52, max: 206}}

serving:
  balancer: least-harm
"""


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("replicas", type=int)
    arguments.add_argument("--present", type=int)
    a = arguments.parse_args()
    if a.replicas < 4 or a.replicas % 4 or (a.present or 4) % 4:
        arguments.error("want a multiple of four")
    print(render(a.replicas, a.replicas if a.present is None else a.present), end="")


def render(n, present):
    short = present < n
    models = {size: f", model: {size}" if short else "" for size in SIZES}
    out = [HEAD.format(**models, n=n, name=f"{n}-of-{present}" if short else n, args=f"{n} --present {present}" if short else n)]
    names = [f"{card}-{i // 4}-{variant}" for i in range(0, n, 4) for variant, card in KINDS]
    out.append("hosts:")
    for i, name in enumerate(names):
        out.append(f"  - {{name: {name}, memory: {CARDS[KINDS[i % 4][1]]}}}")
    if short:
        out.append("\nmodels:")
        for size, (_, _, _, _, weights, _) in SIZES.items():
            out.append(f"  - {{name: {size}, memory: 19GiB, load_ms: 30000}}")
    out.append("\nreplicas:")
    for i, name in enumerate(names):
        state = ", state: cold" if i >= present else ""
        out.append(f"  - {{variant: {KINDS[i % 4][0]}, hosts: [{name}], memory: 90%{state}}}")
    out.append("\nprofiles:")
    for k, (variant, card) in enumerate(KINDS):
        launch, weights, token, context, size, kv = SIZES[variant]
        out.append(f"""\
  - variant: {variant}
    hosts: [{", ".join(names[k::4])}]
    launch_floor_ms: {launch}
    weights_ms: {weights * BANDWIDTH[card]:.4g}
    growth_per_sequence: 0.003
    token_ms: {token * COMPUTE[card]:.4g}
    context_token_ms: {context * BANDWIDTH[card]:.4g}
    overhead_ms: 1.196
    sequence_ms: 0.1814
    contention: 0.2229
    weight_bytes: {size}
    activation_bytes: 200000000
    kv_bytes_per_token: {kv}""")
    return "\n".join(out) + "\n\n" + TAIL


if __name__ == "__main__":
    main()
