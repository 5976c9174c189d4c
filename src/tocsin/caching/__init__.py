"""The caches of a broker. Sans-I/O: no clock, socket or random source; `now` is passed in."""

from tocsin.caching.result_cache import CacheCounters, ResultCache

__all__ = ["CacheCounters", "ResultCache"]
