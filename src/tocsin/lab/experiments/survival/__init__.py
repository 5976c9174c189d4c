"""The evaluation of survival 7, Figures 4 to 7, and every sentence about them."""

from __future__ import annotations

from tocsin.lab.experiments.survival import comparison, validation
from tocsin.lab.experiments.survival.figures import FIGURES
from tocsin.lab.experiments.survival.variants import AXIS, FULL, POLICIES, QUICK, VARIANTS
from tocsin.lab.spec.experiment import Experiment
from tocsin.lab.studies.message_cache import MESSAGE_CACHE

EXPERIMENT = Experiment(
    name="survival",
    purpose="how long a message survives in brokers' caches, simulated and modelled",
    source="Modeling the dynamics of caching in content-based publish/subscribe systems, "
    "SAC 2011, sections 3 to 8, Figures 4 to 7",
    study=MESSAGE_CACHE,
    axis=AXIS,
    variants=VARIANTS,
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
