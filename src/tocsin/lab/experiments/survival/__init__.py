"""The *survival* paper's evaluation (section 7): Figures 4 to 7, and every sentence about them."""

from __future__ import annotations

from tocsin.lab.declaring.experiment import Experiment
from tocsin.lab.experiments.survival import comparison, validation
from tocsin.lab.experiments.survival.figures import FIGURES
from tocsin.lab.experiments.survival.readings import AXIS, FULL, POLICIES, QUICK, READINGS
from tocsin.lab.subjects.message_cache import MESSAGE_CACHE

EXPERIMENT = Experiment(
    name="survival",
    purpose="how long a message survives in brokers' caches, simulated and modelled",
    source="Modeling the dynamics of caching in content-based publish/subscribe systems, "
    "SAC 2011, sections 3 to 8, Figures 4 to 7",
    subject=MESSAGE_CACHE,
    axis=AXIS,
    readings=READINGS,
    policies=POLICIES,
    full=FULL,
    quick=QUICK,
    figures=FIGURES,
    claims=(*validation.CLAIMS, *comparison.CLAIMS),
    means={
        "mst_little": "Mean survival time (s)",
        "p_loss": "Published and never cached (share)",
        "multi_error": "Error of the paper's multi-broker model",
        "balanced_error": "Error of the balanced model",
        "wide_error": "Error of the wide model",
        "balanced_ks": "Distance of the balanced model's distribution",
        "popular_mst": "Mean survival time of popular messages (s)",
        "unpopular_mst": "Mean survival time of unpopular messages (s)",
    },
)
