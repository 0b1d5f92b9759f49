"""The direction of dependencies, and what a layer may not do: read from the source, not from good intentions."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import rota
from docs.layers import FACES, LAYERS, PARTS, layer_of

ROOT = Path(rota.__file__).parent

RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
PURE = ("core", "triggers")
BELOW_RUNTIME = tuple(name for names in LAYERS[: RANK["runtime"]] for name in sorted(names))

IMPURE = frozenset(
    {
        "asyncio",
        "concurrent",
        "http",
        "io",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "psycopg",
        "random",
        "redis",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
        "sqlalchemy",
        "sqlite3",
        "ssl",
        "structlog",
        "subprocess",
        "sys",
        "tempfile",
        "threading",
        "time",
        "urllib",
        "uuid",
    }
)
UNSAFE_MODULES = frozenset({"cloudpickle", "dill", "jsonpickle", "marshal", "pickle", "shelve"})
CLOCKS = frozenset(
    {
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "datetime.now",
        "datetime.utcnow",
        "datetime.today",
        "datetime.datetime.now",
        "date.today",
    }
)


class Source:
    """One module of the product, parsed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        self.name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        self.package = parts[1]
        self.tree = ast.parse(path.read_text(encoding="utf-8"))

    def __repr__(self) -> str:
        return self.name

    def imports(self, *, at_start: bool = False) -> Iterator[str]:
        """The modules it imports when it runs; with `at_start`, only those that importing it needs."""
        for node in _running(self.tree, into_functions=not at_start):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                modules = [f"{node.module}.{alias.name}" for alias in node.names]
                # `from package import module` needs the module; the package only as the way to it.
                yield from modules if all(map(_is_module, modules)) else [node.module, *modules]

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func), node


def _running(node: ast.AST, *, into_functions: bool) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING`, which never run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not into_functions:
            continue
        yield child
        yield from _running(child, into_functions=into_functions)


def _is_module(name: str) -> bool:
    path = ROOT.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


@cache
def sources() -> tuple[Source, ...]:
    return tuple(Source(path) for path in sorted(ROOT.rglob("*.py")) if path != ROOT / "__init__.py")


def _declared_all(source: Source) -> list[str] | None:
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets):
            return [str(name) for name in ast.literal_eval(node.value)]
    return None


def of(*packages: str) -> list[Source]:
    return [source for source in sources() if source.package in packages]


def where(source: Source, node: ast.AST) -> str:
    return f"{source.path.relative_to(ROOT.parent)}:{getattr(node, 'lineno', 0)}"


def test_every_module_has_its_layer() -> None:
    unplaced = sorted({layer_of(source.name) for source in sources()} - set(RANK))
    assert unplaced == [], f"say in LAYERS where these belong: {unplaced}"


def test_imports_point_in_one_direction() -> None:
    wrong = sorted(
        {
            f"{source.name} imports {name}"
            for source in sources()
            for name in source.imports()
            if name.startswith("rota.")
            and RANK.get(layer_of(name), -1) > RANK[layer_of(source.name)]
            and not _is_brought_by_its_part(source.name, name)
        }
    )
    assert wrong == []


def _is_brought_by_its_part(source: str, name: str) -> bool:
    """`rota.memory.part` hands its own faces to whoever collects them, and imports them only then."""
    package = source.removesuffix(".part")
    return package != source and name.startswith(f"{package}.faces")


def test_no_face_and_no_part_imports_a_part() -> None:
    """Faces collect parts through the protocol; what lies below other parts, events, they may publish through."""
    wrong = sorted(
        f"{source.name} imports {name}"
        for source in sources()
        if source.package in (*FACES, *PARTS)
        for name in source.imports()
        if name.startswith("rota.")
        and name.split(".")[1] in PARTS
        and name.split(".")[1] not in (source.package, "events")
    )
    assert wrong == []


def test_no_module_imports_itself_by_a_detour() -> None:
    known = {source.name for source in sources()}
    graph = {
        source.name: {name for name in source.imports(at_start=True) if name in known and name != source.name}
        for source in sources()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_nothing_but_the_tests_uses_testing() -> None:
    users = [
        source.name
        for source in sources()
        if source.package != "testing" and any(name.startswith("rota.testing") for name in source.imports())
    ]
    assert users == []


def test_core_and_triggers_do_no_io() -> None:
    impure = [
        f"{source.name} imports {name}"
        for source in of(*PURE)
        for name in source.imports()
        if name.split(".")[0] in IMPURE
    ]
    assert impure == []


def test_core_and_triggers_wait_for_nobody() -> None:
    waiting = (ast.AsyncFunctionDef, ast.Await, ast.AsyncWith, ast.AsyncFor)
    found = [where(source, node) for source in of(*PURE) for node in ast.walk(source.tree) if isinstance(node, waiting)]
    assert found == []


def test_no_clock_is_read_below_runtime() -> None:
    found = [
        where(source, call)
        for source in of(*BELOW_RUNTIME)
        if source.name != "rota.clock"
        for name, call in source.calls()
        if name in CLOCKS
    ]
    assert found == []


def test_only_the_rules_change_a_status() -> None:
    """Of tasks in one place, and of batches and their subtasks in one."""
    found = [
        where(source, call)
        for source in sources()
        if source.name not in ("rota.core.lifecycle", "rota.batches.batch")
        for name, call in source.calls()
        if name.split(".")[-1] in ("replace", "_replace", "setattr")
        and any(keyword.arg == "status" for keyword in call.keywords)
    ]
    assert found == []


def test_nothing_runs_what_data_says() -> None:
    found: list[str] = []
    for source in sources():
        found += [f"{source.name} imports {name}" for name in source.imports() if name.split(".")[0] in UNSAFE_MODULES]
        for name, call in source.calls():
            if name in ("eval", "exec", "__import__", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load"):
                found.append(f"{where(source, call)} calls {name}")
            if any(keyword.arg == "shell" and ast.unparse(keyword.value) != "False" for keyword in call.keywords):
                found.append(f"{where(source, call)} uses a shell")
    assert found == []


# Alembic imports the migrations, nobody else does.
OFFERING = [s for s in sources() if _declared_all(s) is not None and "migrations" not in s.name]


@pytest.mark.parametrize("source", OFFERING, ids=repr)
def test_what_a_module_offers_is_there_and_listed_once(source: Source) -> None:
    declared = _declared_all(source) or []
    assert len(set(declared)) == len(declared)
    module = importlib.import_module(source.name)
    assert [name for name in declared if not hasattr(module, name)] == []


RULES = [source for source in of("errors", "clock", "keys", *PURE) if source.path.name != "__init__.py"]


@pytest.mark.parametrize("source", RULES, ids=repr)
def test_every_public_name_of_the_rules_is_listed(source: Source) -> None:
    defined = {
        node.name
        for node in source.tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
    }
    declared = set(_declared_all(source) or ())
    assert sorted(defined - declared) == []


@pytest.mark.parametrize("package", ["rota.triggers", "rota.testing", "rota.stores.sql"])
def test_a_package_lists_all_that_it_brings_in(package: str) -> None:
    source = next(source for source in sources() if source.name == package)
    brought = {
        alias.asname or alias.name
        for node in source.tree.body
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("rota.")
        for alias in node.names
    }
    assert sorted(brought) == sorted(_declared_all(source) or ())


def test_the_face_offers_what_it_lists() -> None:
    assert [name for name in rota.__all__ if not hasattr(rota, name)] == []
    assert len(set(rota.__all__)) == len(rota.__all__)
