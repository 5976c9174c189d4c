"""Offers of restaurants and who subscribed to them: the workload of the *kafka* paper, and of
crowds.

A record is an offer: a restaurant, a food and a discount, written as a bitmap. A consumer
subscribes to a value of each attribute, or leaves some open. `paper` makes the paper's own
setting, `crowd` one with thousands of consumers; `files` reads and writes the format of the
paper's authors.
"""

from tocsin.lab.workloads.offers.crowd import CrowdSettings, crowd_offers
from tocsin.lab.workloads.offers.offers import Offers, Published
from tocsin.lab.workloads.offers.paper import PaperSettings, paper_offers

__all__ = ["CrowdSettings", "Offers", "PaperSettings", "Published", "crowd_offers", "paper_offers"]
