"""Message caches at the brokers of a tree, with requests and responses that travel over it
(overlay V)."""
