"""The public face: small, complete, sorted, and cheap to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota import InvalidConfig
from rota.stores import open_store


def test_all_is_sorted_and_complete():
    assert rota.__all__ == sorted(rota.__all__)
    assert set(rota.__all__) <= set(dir(rota))
    for name in rota.__all__:
        assert getattr(rota, name) is not None


def test_the_type_checker_sees_what_python_sees():
    """The imports of the stub name the same homes as the table that is used at run time."""
    source = Path(rota.__file__).with_suffix(".pyi").read_text().split("__version__")[0]
    seen: dict[str, tuple[str, ...]] = {}
    for line in source.splitlines():
        if line:
            _, home, _, name, _, offered = line.split(" ")
            assert name == offered
            seen[home] = tuple(sorted((*seen.get(home, ()), name)))
    homes = vars(rota)["_HOMES"]
    assert seen == homes
    assert sorted(name for names in homes.values() for name in names) == rota.__all__


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'Rotta'"):
        getattr(rota, "Rotta")  # noqa: B009 - the name must not be checked before it runs


def test_importing_rota_imports_no_engine():
    """Neither a database nor a web framework is loaded before somebody asks for it."""
    heavy = "[name for name in ('sqlalchemy', 'alembic', 'typer') if name in sys.modules]"
    program = f"import sys, rota; rota.Rota('memory://'); print({heavy})"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


BAD_URLS = {
    "redis+sentinel://a,b": "which service",
    "redis://localhost?prefix=a{b": "no braces",
    "mysql://localhost/x": "No engine is called 'mysql'",
    "postgres://localhost/x": "Did you mean 'postgresql'",
    "rota.db": "A URL is needed",
    "memory://somewhere": "write 'memory://'",
    "sqlite://rota.db": "three slashes",
}


@pytest.mark.parametrize("url", BAD_URLS)
def test_stores_that_cannot_be_opened_say_why(url: str):
    with pytest.raises(InvalidConfig, match=BAD_URLS[url]):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "extra"), [("postgresql://u:secret@host/db", "postgres"), ("redis://u:p@host", "redis")]
)
def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch, url: str, extra: str):
    def not_installed(name: str) -> None:
        assert name in ("psycopg", "redis")

    monkeypatch.setattr("rota.stores.find_spec", not_installed)
    with pytest.raises(InvalidConfig, match=rf"u:\*\*\*@host.*pip install 'rota\[{extra}\]'"):
        open_store(url)


async def test_a_file_in_no_folder_is_refused(tmp_path: Path):
    app = rota.Rota(f"sqlite:///{tmp_path}/missing/rota.db")
    with pytest.raises(InvalidConfig, match=r"missing/rota\.db does not exist\. Create"):
        await app.run_until_idle()
