"""How good could any policy be? Certified intervals around the offline optimum."""

from tocsin.lab.bounds.certify import Certificate, Interval, certify, certify_sizes
from tocsin.lab.bounds.goals import GOALS, GoalName

__all__ = ["GOALS", "Certificate", "GoalName", "Interval", "certify", "certify_sizes"]
