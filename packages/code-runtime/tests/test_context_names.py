"""Plugins by name: real entry points of a distribution that a test writes to disk."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from code_runtime import CodeRunRequest, Context, PluginNotFoundError, PluginTypeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.anyio

_MODULE = """
from code_runtime import CodeRunResult, CodeRuntime


class Tiny(CodeRuntime):
    language = property(lambda self: "tiny")
    isolation = property(lambda self: "none")

    async def run(self, request):
        return CodeRunResult([], has_value=True, value=[self.config, request.program])


async def tiny(ctx, config):
    await ctx.plugin(Tiny, config)
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path with one distribution that offers four plugins."""
    (tmp_path / "tiny_provider.py").write_text(_MODULE)
    (tmp_path / "broken_provider.py").write_text("import no_such_module_anywhere\n")
    _distribution(
        tmp_path,
        "tiny",
        "tiny = tiny_provider:Tiny\ntiny-apply = tiny_provider:tiny\n"
        "broken = broken_provider:X\nsame = tiny_provider:Tiny\ntwice = tiny_provider:Tiny\n",
    )
    _distribution(tmp_path, "tiny_again", "same = tiny_provider:Tiny\ntwice = tiny_provider:tiny\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("tiny_provider", "broken_provider"):
        sys.modules.pop(name, None)


def _distribution(folder: Path, name: str, points: str) -> None:
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[code_runtime.providers]\n{points}")


@pytest.mark.parametrize("name", ["tiny", "tiny-apply", "same"])
async def test_plugin_is_loaded_by_name(site: Path, name: str) -> None:
    async with Context() as ctx:
        handle = await ctx.plugin(name, {"limit": 5})
        assert handle.state == "active"
        result = await ctx.codeRuntime.run(CodeRunRequest("x"))
        assert result.value == [{"limit": 5}, "x"]
        await handle.dispose()
        assert ctx.get("codeRuntime") is None


async def test_name_is_imported_only_when_it_is_loaded(site: Path) -> None:
    async with Context() as ctx:
        assert "tiny_provider" not in sys.modules
        await ctx.plugin("tiny")
        assert "tiny_provider" in sys.modules
        assert "broken_provider" not in sys.modules


async def test_name_whose_import_fails_says_where_it_came_from(site: Path) -> None:
    async with Context() as ctx:
        with pytest.raises(ModuleNotFoundError) as caught:
            await ctx.plugin("broken")
        assert caught.value.name == "no_such_module_anywhere"
        assert caught.value.__notes__ == [
            "Raised while importing 'broken_provider:X', the plugin named 'broken'"
        ]
        assert repr(ctx) == "<Context open, 0 owned>"


async def test_name_with_two_meanings_is_refused(site: Path) -> None:
    async with Context() as ctx:
        with pytest.raises(PluginTypeError) as caught:
            await ctx.plugin("twice")
        assert str(caught.value) == (
            "Cannot load plugin: 'twice' is offered more than once "
            "(tiny_provider:Tiny, tiny_provider:tiny), expected one installed package per name"
        )


async def test_known_name_that_is_not_installed_names_the_package() -> None:
    error = PluginNotFoundError("python", ("worker-thread",))
    assert str(error) == (
        "Cannot load plugin 'python': no installed package offers it "
        "(installed: 'worker-thread'), expected `pip install code-runtime-python`"
    )
