"""Message caches of several brokers, whose clients come and go (survival): how long a message stays
in at least one of them."""
