"""Message caches: simulated events a second, and what the models of survival take.

The simulator's baseline is the same kernel, not compiled. A model's baseline is a simulation of the
same load that goes on until it knows the mean to half a percent. All by the processor's time, since
nothing here waits.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from bench.findings import Finding
from tocsin.lab.models.named import model
from tocsin.lab.simulators.message_cache import measures
from tocsin.lab.simulators.message_cache.simulator import simulate
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import parse_message_policy

EVENTS_A_SECOND = 10_000_000
POLICIES = ("sel-sub-prt", "sel-fld-prt", "sel-sub-nop", "all-fld-nop")
SURE = 0.005  # relative half-width
MODELS = {
    "multi": (MessageLoad(brokers=6, slots=15), 2.0),
    "balanced": (MessageLoad(brokers=3, slots=15), None),
    "wide": (MessageLoad(brokers=7, slots=200, publication_rate=10.0), None),
}
PLAIN = """
import time
from tocsin.lab.simulators.message_cache.simulator import simulate
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import parse_message_policy
load, policy = MessageLoad(), parse_message_policy("{policy}")
began = time.process_time()
lives = simulate(load, policy, messages={messages}, seed=1)
print(lives.events / (time.process_time() - began))
"""


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    rounds = 3 if quick else 7
    return [*_events(quick, rounds, say), *_models(rounds, say)]


def _events(quick: bool, rounds: int, say: Callable[[str], None]) -> list[Finding]:
    findings = []
    for name in POLICIES:
        say(f"{name}: events")
        load, policy = MessageLoad(), parse_message_policy(name)
        simulate(load, policy, messages=100, seed=1)  # compiles
        rates = []
        for seed in range(rounds):
            began = time.process_time()
            lives = simulate(load, policy, messages=20_000 if quick else 200_000, seed=seed)
            rates.append(lives.events / (time.process_time() - began))
        findings.append(
            Finding(
                claim=f"simulated events of message caches, {name}",
                unit="/s",
                ours=statistics.median(rates),
                baseline=_plain(name, 100 if quick else 1_000),
                baseline_is="the same kernel in plain Python",
                target=EVENTS_A_SECOND,
                details={"rounds": rates, "events": lives.events},
            )
        )
    return findings


def _plain(policy: str, messages: int) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN.format(policy=policy, messages=messages)],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def _models(rounds: int, say: Callable[[str], None]) -> list[Finding]:
    findings = []
    policy = parse_message_policy("sel-sub-prt")
    for name, (load, target) in MODELS.items():
        say(f"{name}: {load.brokers} brokers, {load.slots} slots")
        model(name, MessageLoad(brokers=2, slots=3), policy)  # compiles
        times = []
        for _ in range(rounds):
            began = time.process_time()
            model(name, load, policy)
            times.append(time.process_time() - began)
        findings.append(
            Finding(
                claim=f"the {name} model of {load.brokers} brokers, {load.slots} slots",
                unit="s",
                ours=statistics.median(times),
                baseline=_simulated(load),
                baseline_is=f"a simulation that knows the mean to {SURE:.1%}",
                lower_is_better=True,
                target=target,
                details={"rounds": times},
            )
        )
    return findings


def _simulated(load: MessageLoad) -> float:
    policy, messages = parse_message_policy("sel-sub-prt"), 2_000
    while True:
        began = time.process_time()
        lives = simulate(load, policy, messages=messages, seed=1)
        taken = time.process_time() - began
        mean = measures.little(lives)
        if mean.half <= SURE * mean.value:
            return taken
        messages *= 2
