"""The evaluation of kafka, Figures 8 to 14, simulated and live, and every sentence that
claims something.

The paper prints tuples as (mu, lambda); a policy is written threshold(lambda, mu).
"""

from __future__ import annotations

from tocsin.lab.experiments.kafka_admission import admitted, parameters, speed
from tocsin.lab.experiments.kafka_admission.figures import FIGURES
from tocsin.lab.experiments.kafka_admission.policies import FIVE, OTHERS, STUDIED
from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.experiment import Experiment, Extent, Live, variants_of
from tocsin.lab.studies.consumer_logs import PAPERS_LOGS, recordings

AXIS = Axis(
    column="records",
    label="records published",
    plural="numbers of records",
    suffix="records",
    logarithmic=True,
)

VARIANTS = variants_of(
    {
        "half": ("half of the records are shared, as in the authors' files", {"shared": 0.5}),
        "printed": ("70 % of the records are shared, as the paper says", {"shared": 0.7}),
    }
)

STUDIES: dict[str, tuple[int, ...]] = dict.fromkeys(OTHERS, (STUDIED,))

EXPERIMENT = Experiment(
    name="kafka-admission",
    purpose="what to write into consumers' logs (kafka, Figures 8 to 14)",
    source="kafka, Figures 8 to 14 and their analysis",
    study=PAPERS_LOGS,
    axis=AXIS,
    variants=VARIANTS,
    policies=(*FIVE, *OTHERS),
    full=Extent(values=(500, 1_000, 5_000, 10_000), seeds=10),
    quick=Extent(values=(500, 1_000, 2_000), seeds=4),
    figures=FIGURES,
    claims=(*admitted.CLAIMS, *speed.CLAIMS, *parameters.CLAIMS),
    means={
        "hit_rate": "Hit rate",
        "duplication_factor": "Duplication factor",
        "latency_mean_s": "Mean latency (s)",
        "throughput_per_s": "Records a second",
    },
    recordings=recordings,
    live=Live(
        on="live Kafka and MariaDB",
        full=Extent(values=(500, 1_000, 5_000, 10_000), seeds=1, only=STUDIES),
        quick=Extent(values=(500, 1_000), seeds=1, only=STUDIES),
        servers=True,
    ),
)
