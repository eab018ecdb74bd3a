"""Replaying a file into a source's topic: read (``reading``), paced (``pacing``), sent (``sending``); ``replay_file``
is all of it.
"""
