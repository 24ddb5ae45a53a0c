"""Stands in for the package of a child: its program is what it is told over the descriptor."""
