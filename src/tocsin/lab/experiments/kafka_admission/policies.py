"""The policies of the paper, with the parameters that it tries."""

from __future__ import annotations

THRESHOLD, MEAN, BUFFER = "threshold(0.3,0.2)", "mean(50)", "buffer(0.5,0.5)"
"""With the parameters of the authors' code."""
NOVEL = (THRESHOLD, MEAN, BUFFER)
FIVE = ("none", *NOVEL, "all")
STUDIED = 1_000  # the number of records of the parameter studies

LAMBDA_MU = ((0.3, 0.2), (0.3, 0.1), (0.5, 0.5), (0.1, 0.3), (0.2, 0.3), (0.8, 0.2), (0.2, 0.8))
THRESHOLDS = tuple(f"threshold({rise:g},{fall:g})" for rise, fall in LAMBDA_MU)
SET_POINTS = {
    policy: fall / (rise + fall) for policy, (rise, fall) in zip(THRESHOLDS, LAMBDA_MU, strict=True)
}
PRINTED_WORST = "threshold(0.8,0.8)"  # the text calls it the highest; the list does not have it
BATCHES = (20, 30, 50, 100, 200, 500)
MEANS = tuple(f"mean({batch})" for batch in BATCHES)
BUFFERS = tuple(
    f"buffer({gamma:g},{alpha:g})"
    for gamma, alpha in ((1, 0), (0.9, 0.1), (0.8, 0.2), (0.7, 0.3), (0.6, 0.4), (0.5, 0.5))
)
OTHERS = tuple(
    dict.fromkeys(
        policy
        for policy in (*THRESHOLDS, PRINTED_WORST, "mean(2)", *MEANS, *BUFFERS)
        if policy not in FIVE
    )
)
