"""Replays a file into a source's topic. ``replay_file`` combines reading, pacing (``pacing``) and sending
(``sending``).
"""
