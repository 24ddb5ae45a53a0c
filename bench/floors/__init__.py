"""The least that does the work of a figure in the product's architecture.

Same processes and the same hops, and nothing else: no check, limit, guard, journal, proof or
clean-up. What they show is how far a figure is from what it could be; nobody could use them.
"""
