"""How many machines does it take, and of what? From a wish and the costs that were measured on one
machine to what each part of a system needs; and where no number of machines helps.

`costs` (what was measured), `load` (the wish), `model` (formulas), `simulation` (the same costs
played through time). Nothing here knows a clock, a process or a file but `costs`, which reads one.
"""
