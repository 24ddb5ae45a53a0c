"""Drivers: small hosts that do the work of a figure when the runner asks for it."""
