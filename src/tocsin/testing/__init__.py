"""For those who test against Tocsin: a cluster in memory that keeps the contract of the real one,
and the fault simulation of the whole system."""
