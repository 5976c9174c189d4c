"""What experiments are about, one file each: a workload, what is played with it, what bounds it."""
