"""The options that make each Java the same on every machine, whatever its locale, time zone and user are.

A later option wins: they stand behind those of the settings. Java reads ``JAVA_TOOL_OPTIONS`` and ``JDK_JAVA_OPTIONS``
before them, and ``_JAVA_OPTIONS`` after them (see `child_environment.py`).
"""

_LOCALE = {"language": "en", "country": "US", "script": "", "variant": "", "extensions": ""}
"""Of a locale of its own, numbers have other digits, which Delta writes into the names of files, and ``upper`` gives
other letters.
"""

_PROPERTIES = {
    **{f"user.{part}{of}": value for of in ("", ".display", ".format") for part, value in _LOCALE.items()},
    "user.region": _LOCALE["country"],  # the older name of the country, which wins over it
    "user.timezone": "UTC",
    "file.encoding": "UTF-8",
    "sun.jnu.encoding": "UTF-8",
}

SAME_EVERYWHERE = [f"-D{name}={value}" for name, value in _PROPERTIES.items()]
"""What the results depend on, for each Java."""


def of_user(name: str, home: str) -> list[str]:
    """The options that say who runs Java, for one of this machine. Without a name in its list of users, Java would take
    `?` for both.
    """
    return [f"-Duser.name={name}", f"-Duser.home={home}"]
