"""Who may sign what: keys of tokens, where services find them, and what has been revoked.

`verifier` answers whose token it is; `jwk` is one key, `key_sets` a file of them, `sources` where
they come from, `revocations` what is no longer taken, `credentials` what a broker shows.
"""
