"""The caches of a broker. Sans-I/O: no clock, socket or random source; `now` is passed in."""

from tocsin.caching.counters import CacheCounters
from tocsin.caching.message_cache import MessageCache
from tocsin.caching.result_cache import ResultCache
from tocsin.caching.suffix import Standing

__all__ = ["CacheCounters", "MessageCache", "ResultCache", "Standing"]
