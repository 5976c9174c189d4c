"""Processes on this machine: started, known again, waited for, started again, stopped.

`System` is a whole system of Tocsin's services; `tocsin.dev` runs other people's servers with the
same parts. What the processes do inside is not known here.
"""

from tocsin.system.supervised import SUPERVISED
from tocsin.system.system import System

__all__ = ["SUPERVISED", "System"]
