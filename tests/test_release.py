"""The rules of `scripts/release_check.py`: versions, requirements, changelog, and what pages hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from checkout_scripts import release

ROOT = Path(__file__).parents[1]


def checkout(root: Path, *, pin: str = "core>=0.3,<0.4", init: str = "0.3.1") -> Path:
    """Write two Python packages, one of them with an npm package, and a private npm package."""
    for name, dependencies in (("core", []), ("extra", ["anyio>=4", pin])):
        folder = root / "packages" / name
        (folder / "src" / name).mkdir(parents=True)
        (folder / "pyproject.toml").write_text(
            f'[project]\nname = "{name}"\nversion = "0.3.1"\ndependencies = {json.dumps(dependencies)}\n'
        )
        (folder / "src" / name / "__init__.py").write_text(f'__version__ = "{init}"\n')
    for name, private in (("core", True), ("extra", False)):
        manifest = {"name": f"{name}-npm", "version": "0.3.1", "private": private}
        (root / "packages" / name / "package.json").write_text(json.dumps(manifest))
    return root


def test_packages_are_found_by_their_names(tmp_path: Path) -> None:
    root = checkout(tmp_path)
    folders = {name: root / "packages" / name for name in ("core", "extra")}
    assert release.python_packages(root) == folders
    assert release.npm_packages(root) == {"extra-npm": folders["extra"]}


def test_version_is_read_wherever_it_stands(tmp_path: Path) -> None:
    versions = release.declared_versions(checkout(tmp_path))
    assert len(versions) == 6
    assert release.agreed_version(versions) == "0.3.1"


def test_version_that_differs_in_one_place_is_refused(tmp_path: Path) -> None:
    root = checkout(tmp_path, init="0.3.0")
    with pytest.raises(release.ReleaseError) as caught:
        release.agreed_version(release.declared_versions(root))
    assert "packages/core/src/core/__init__.py 0.3.0" in str(caught.value)


def test_requirements_of_each_other_are_counted(tmp_path: Path) -> None:
    assert release.check_pins(checkout(tmp_path), "0.3.1") == 1


@pytest.mark.parametrize("pin", ["core>=0.2,<0.3", "core", "core==0.3.1", "core>=0.3,<1"])
def test_requirement_of_another_range_is_refused(tmp_path: Path, pin: str) -> None:
    with pytest.raises(release.ReleaseError) as caught:
        release.check_pins(checkout(tmp_path, pin=pin), "0.3.1")
    assert str(caught.value) == (
        f"Cannot release extra: it requires {pin!r}, expected 'core>=0.3,<0.4'"
    )


CHANGES = "# Changelog\n\n## Unreleased\n{}\n## 0.3.1 - 2026-12-01\n\n### Added\n\n- a: one\n"


@pytest.mark.parametrize("final", [False, True])
def test_changelog_entry_of_the_version_is_found(final: bool) -> None:
    heading = release.changelog_entry(CHANGES.format("\n- b\n"), "0.3.1", final=final)
    assert heading == "0.3.1 - 2026-12-01"


def test_changelog_before_a_release_may_be_unreleased() -> None:
    assert release.changelog_entry(CHANGES.format("\n- b\n"), "0.4.0", final=False) == "Unreleased"


@pytest.mark.parametrize(
    ("text", "final"),
    [
        pytest.param(CHANGES.format("\n- b\n"), True, id="unreleased-in-the-end"),
        pytest.param(CHANGES.format(""), False, id="nothing-under-unreleased"),
        pytest.param("# Changelog\n", False, id="no-section"),
        pytest.param("## 0.4.0\n\n- b\n", True, id="no-date"),
        pytest.param("## 0.4.0 - 2026-12-01\n\n", True, id="no-entries"),
    ],
)
def test_changelog_without_an_entry_is_refused(text: str, final: bool) -> None:
    with pytest.raises(release.ReleaseError, match=r"expected a section '## 0\.4\.0 - <date>'"):
        release.changelog_entry(text, "0.4.0", final=final)


def test_files_of_the_tutorial_are_found_for_the_trial() -> None:
    files = release.titled_blocks((ROOT / "docs/tutorial.md").read_text("utf-8"))
    assert {"first.py", "tool.py", "agent.py"} <= set(files)
    assert all(text.strip() and "```" not in text for text in files.values())


def test_this_checkout_may_be_released() -> None:
    version = release.agreed_version(release.declared_versions(ROOT))
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert release.check_pins(ROOT, version) >= len(release.python_packages(ROOT)) - 1
    release.changelog_entry((ROOT / "CHANGELOG.md").read_text("utf-8"), version, final=False)
