"""An exception on its way from a task to the driver, with what caused it: pickle keeps the exception alone."""

import pickle
from dataclasses import dataclass
from typing import Self

from hourline_core.error_causes import chain


@dataclass(frozen=True)
class TaskFailure:
    """What has ended the work of a task."""

    error: Exception
    causes: tuple[tuple[str, BaseException], ...]
    """What caused ``error``, then what caused that, and so on, each with the attribute that names it."""

    @classmethod
    def of(cls, error: Exception) -> Self | None:
        """The failure by ``error``. None: the driver cannot get ``error`` itself. Of its causes, it gets those before
        the first one that it cannot get.
        """
        if not _can_cross(error):
            return None
        effect: BaseException = error
        causes: list[tuple[str, BaseException]] = []
        for cause in [*chain(error)][1:]:
            if not _can_cross(cause):
                break
            causes.append(("__cause__" if effect.__cause__ is cause else "__context__", cause))
            effect = cause
        return cls(error, tuple(causes))

    def raised(self) -> Exception:
        """``error`` with its causes, also where this was unpickled."""
        effect: BaseException = self.error
        for attribute, cause in self.causes:
            setattr(effect, attribute, cause)
            effect = cause
        return self.error


def _can_cross(error: BaseException) -> bool:
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (of this process)
    except Exception:
        return False
    return True
