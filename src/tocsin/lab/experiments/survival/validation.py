"""What the paper says of its models (sections 3 to 6, 7.1 and 7.2), and what we say of ours."""

from __future__ import annotations

from tocsin.lab.declaring.checks import both, changes_along, only_in, ratio
from tocsin.lab.declaring.claims import Claim
from tocsin.lab.declaring.levels import between, on_a_line, steady
from tocsin.lab.experiments.survival.readings import (
    FLOODING,
    MULTI,
    PAPERS,
    PLAIN,
    POLICIES,
    SINGLE,
)

MOVING = (PAPERS, FLOODING)

CLAIMS = (
    Claim(
        name="one-broker-mean",
        says="Equation (1) implies MST = k/λb, independently of the caching mechanisms",
        where="4",
        rule="simulated mean / (k/λb) lies, with its interval, in 0.99 to 1.01",
        check=only_in(SINGLE, ratio("mst", "one_cache_s", POLICIES, low=0.99, high=1.01)),
    ),
    Claim(
        name="exact-accurate",
        says="the proposed models predict very accurately the MST for several settings",
        where="4",
        rule="simulated / exact lies, with its interval, in 0.98 to 1.02",
        check=only_in(SINGLE, ratio("mst", "exact_mst", (PAPERS,), low=0.98, high=1.02)),
    ),
    Claim(
        name="reduced-below-a-percent",
        says="The relative error is always smaller than 1%",
        where="4",
        rule="of the means of reduced and exact model, with the printed start, at every value",
        check=only_in(SINGLE, between("reduced_off", (PAPERS,), 0.0, 0.01)),
    ),
    Claim(
        name="reduced-far-below",
        says="in many cases is lower than 1e-4",
        where="4",
        rule="below 0.0001 at every value (“many”: partly will do)",
        check=only_in(SINGLE, between("reduced_off", (PAPERS,), 0.0, 1e-4)),
    ),
    Claim(
        name="bounds",
        says="k/λb ≤ MST ≤ nk/λb",
        where="5",
        rule="simulated mean / (k/λb) at least 0.999, simulated mean / (nk/λb) at most 1.001",
        check=only_in(
            MULTI,
            both(
                ratio("mst_little", "one_cache_s", POLICIES, low=0.999),
                ratio("mst_little", "all_caches_s", POLICIES, high=1.001),
            ),
        ),
    ),
    Claim(
        name="falls-with-load-and-rate",
        says="MST decreases fast with λb and ρc",
        where="5",
        rule="each step lowers it",
        check=only_in(("load", "rate"), changes_along("mst_little", (PAPERS,), rises=False)),
    ),
    Claim(
        name="linear-in-slots-and-brokers",
        says="and increases linearly with n and k",
        where="5",
        rule="within 2 % of a straight line, at every value",
        check=only_in(("slots", "brokers"), on_a_line("mst_little", (PAPERS,), 0.02)),
    ),
    Claim(
        name="multi-within-10-percent",
        says="the model is close to simulation having an error of at most 10%",
        where="5",
        rule="|multi / simulated − 1| ≤ 0.1, with its interval, at every value",
        check=only_in(MULTI, between("multi_error", (PAPERS,), 0.0, 0.1)),
    ),
    Claim(
        name="multi-worse-with-slots-and-brokers",
        says="The error seems to increase when n and k increase",
        where="5",
        rule="each step to a larger value raises it",
        check=only_in(("slots", "brokers"), changes_along("multi_error", (PAPERS,), rises=True)),
    ),
    Claim(
        name="multi-steady-in-load-and-rate",
        says="the accuracy seems to be rather invariant to λb, ρc",
        where="5",
        rule="the error is within ± 0.03 of its mean over all values",
        check=only_in(("load", "rate"), steady("multi_error", (PAPERS,), 0.03)),
    ),
    Claim(
        name="replicas-vary-little",
        says="the number of replicas in the network has very small variance",
        where="6 (section)",
        rule="its deviation between messages is at most a tenth of the mean",
        check=only_in(MULTI, ratio("replicas_deviation", "replicas", (PAPERS,), high=0.1)),
    ),
    Claim(
        name="replicas-settle-soon",
        says="and has quasi-stationary behavior soon after the publication of each message",
        where="6 (section)",
        rule="from half to twice the mean survival time their number moves by a tenth at most",
        check=only_in(MULTI, between("replicas_drift", (PAPERS,), 0.0, 0.1)),
    ),
    Claim(
        name="exact-distribution",
        says="the exact model's distribution is the simulated one",
        where="4",
        rule="Kolmogorov and Smirnov's distance at most 0.03, at every value",
        check=only_in(SINGLE, between("exact_ks", (PAPERS, PLAIN), 0.0, 0.03)),
        own=True,
    ),
    Claim(
        name="reduced-distribution",
        says="the reduced model's distribution is the exact one's",
        where="4",
        rule="Kolmogorov and Smirnov's distance between the two at most 0.01, at every value",
        check=only_in(SINGLE, between("reduced_off_ks", (PAPERS,), 0.0, 0.01)),
        own=True,
    ),
    Claim(
        name="balanced-within-10-percent",
        says="the balanced model is within 10 % of the simulation for all policies",
        where="errors",
        rule="|balanced / simulated − 1| ≤ 0.1, with its interval, at every value",
        check=only_in(MULTI, between("balanced_error", POLICIES, 0.0, 0.1)),
        own=True,
    ),
    Claim(
        name="balanced-within-3-percent",
        says="and within 3 % for those that follow the clients",
        where="errors",
        rule="|balanced / simulated − 1| ≤ 0.03, with its interval, at every value",
        check=only_in(MULTI, between("balanced_error", MOVING, 0.0, 0.03)),
        own=True,
    ),
    Claim(
        name="wide-within-10-percent",
        says="the wide model is within 10 % of the simulation for all policies",
        where="errors",
        rule="|wide / simulated − 1| ≤ 0.1, with its interval, at every value",
        check=only_in(MULTI, between("wide_error", POLICIES, 0.0, 0.1)),
        own=True,
    ),
    Claim(
        name="balanced-distribution",
        says="the balanced model's distribution is near the simulated one",
        where="distances",
        rule="Kolmogorov and Smirnov's distance at most 0.05, at every value",
        check=only_in(MULTI, between("balanced_ks", POLICIES, 0.0, 0.05)),
        own=True,
    ),
)
