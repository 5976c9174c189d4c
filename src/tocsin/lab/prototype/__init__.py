"""BAD's prototype experiment: the demo on a live system, beside what a recording of it predicts."""
