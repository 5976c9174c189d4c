"""The live system beside what the simulator predicts of it."""
