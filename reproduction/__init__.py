"""The paper's tables and figures, and our results beyond it: which runs they need, and what came of them.

`python -m reproduction zinc` runs what a table needs and prints it; README.md beside this file says more. It is not
part of the installed package.
"""
