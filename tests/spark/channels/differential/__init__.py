"""The differential test: a channel's answer for a parameter set is what the author's query says
with those arguments written into it. `queries` draws the questions, `data` what they are asked of,
`running` compares. `python -m tests.spark.channels.differential --seeds 5000` draws thousands.
"""
