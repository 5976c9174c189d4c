"""What a table of points tells, for people: curves, pictures, judged claims, a page."""
