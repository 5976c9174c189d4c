"""The words in which experiments are declared: what is swept, what is drawn, what is claimed and
how a claim is judged by the points; and the plan of one run.

Knows no simulator, no Spark and no drawing.
"""
