"""Pages that are published, notified of and requested: the *delivery* paper's workload."""
