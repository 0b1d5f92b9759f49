"""Compiled templates, kept where Python keeps its compiled modules, and under the same conditions.

Compiling those of the first page takes longer than everything else that the page needs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from jinja2 import BytecodeCache, FileSystemBytecodeCache

__all__ = ["compiled_templates"]

_FOLDER: Final = Path(__file__).parent / "__pycache__"


def compiled_templates(folder: Path = _FOLDER) -> BytecodeCache | None:
    """None where Python itself would keep nothing: not wanted, wanted elsewhere, or not allowed. A template that has
    changed since is compiled again, because what is kept knows the text that it was made from."""
    is_wanted = not sys.dont_write_bytecode and sys.pycache_prefix is None
    return FileSystemBytecodeCache(str(folder)) if is_wanted and os.access(folder, os.W_OK) else None
