"""This process, as owners and holds know it. A forked child is another one, and has nothing of what its parent began."""

from __future__ import annotations

import os
import socket
from typing import Callable


def after_fork(forget: Callable[[], object]) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forget)


class _Process:
    def __init__(self) -> None:
        self._begin()
        after_fork(self._begin)

    def _begin(self) -> None:
        self.id = os.getpid()
        self.name = f"{socket.gethostname()[:64]}:{self.id}"


process = _Process()
