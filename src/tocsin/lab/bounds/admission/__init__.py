"""How good could any admission be? Certified intervals for the consumer logs of the *kafka* paper.

`best_for_bytes`: the deliveries that any choice of records could save with the bytes that a policy
wrote. `certify_retention`: the hits that any choice could have in logs of limited size.
"""

from tocsin.lab.bounds.admission.intervals import certify_retention
from tocsin.lab.bounds.admission.knapsack import best_for_bytes

__all__ = ["best_for_bytes", "certify_retention"]
