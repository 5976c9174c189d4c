"""Studies played on a live system, beside what the simulator predicts of it: a form each."""
