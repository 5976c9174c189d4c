"""What a simulator is given: who subscribes, comes, goes, what is published, what distance costs.

Knows no cache and no policy.
"""
