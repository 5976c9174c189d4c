"""Message caches: which messages a broker keeps, how a request for old ones travels, and where in
the cache a message moves as its clients come and go (survival 2.3, overlay III).

A cache of messages is a list: a message is put on top, the one at the bottom makes room. Three
families, a small function over scalars each, and a policy is one of each: `sel-sub-prt`. *Clients*
are those of one broker that are interested in the message.
"""

from tocsin.policies.message.choice import (
    MESSAGE_FAMILIES,
    MessagePolicy,
    message_policy_names,
    parse_message_policy,
)

__all__ = ["MESSAGE_FAMILIES", "MessagePolicy", "message_policy_names", "parse_message_policy"]
