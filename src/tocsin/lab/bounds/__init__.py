"""How good could any policy be? Certified intervals around the offline optimum."""

from tocsin.lab.bounds.goals import GOALS, GoalName
from tocsin.lab.bounds.interval import Interval
from tocsin.lab.bounds.intervals import Certificate, certify, certify_sizes

__all__ = ["GOALS", "Certificate", "GoalName", "Interval", "certify", "certify_sizes"]
