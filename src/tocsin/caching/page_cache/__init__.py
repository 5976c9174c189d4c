"""The page cache of a broker: which pages it keeps, decided by pushes and requests (delivery 2).

It decides only. The bytes lie elsewhere, and whoever keeps them follows its steps.
"""

from tocsin.caching.page_cache.cache import PageCache
from tocsin.caching.page_cache.steps import OUTCOMES, Outcome, PageCounters, Step

__all__ = ["OUTCOMES", "Outcome", "PageCache", "PageCounters", "Step"]
