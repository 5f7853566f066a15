"""Engines that are not ours, to tell ours whether it is right."""
