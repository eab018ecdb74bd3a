"""Classes that users write, of measures and of keyed folds: load them, call them, and try them on generated events.

The aggregates that use them are ``user_defined.py`` and ``keyed_fold.py``, one folder up.
"""
