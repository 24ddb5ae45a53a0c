"""Finds installed providers and the one that a language needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from code_runtime import CodeRuntime, Context
from code_runtime._plugins import list_entry_points

from .problem import Misuse

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# Plain JavaScript is TypeScript without types.
LANGUAGE_OF_SUFFIX: Final = {
    ".ts": "typescript",
    ".mts": "typescript",
    ".js": "typescript",
    ".mjs": "typescript",
    ".py": "python",
}
KNOWN_PROVIDERS: Final = {"typescript": "worker-thread", "python": "python"}


@dataclass(frozen=True, slots=True)
class Provider:
    """One installed provider, or the reason why it cannot be loaded.

    Args:
        name: The name of its entry point.
        package: The distribution that brings it.
        version: The version of that.
        loaded: What the entry point names; None when the import failed.
        language: The language of its programs; empty when unknown.
        isolation: The label of what keeps a program apart from its host; empty when unknown.
        error: Why it cannot be loaded; empty when it can.
    """

    name: str
    package: str
    version: str
    loaded: object = None
    language: str = ""
    isolation: str = ""
    error: str = ""


def installed_names() -> list[str]:
    """Return the names of the installed providers without importing them."""
    return sorted({entry.name for entry in list_entry_points()})


def installed_providers() -> list[Provider]:
    """Import every installed provider; one that fails hides no other."""
    found = {entry.name: entry for entry in list_entry_points()}
    return [_load(found[name]) for name in sorted(found)]


def _load(entry: EntryPoint) -> Provider:
    package = entry.dist.name if entry.dist else "unknown"
    version = entry.dist.version if entry.dist else "unknown"
    language = isolation = ""
    try:
        loaded: object = entry.load()
        if isinstance(loaded, type) and issubclass(loaded, CodeRuntime):
            # Making an instance starts nothing (see Service), and only instances have labels.
            sample = loaded(Context())
            language, isolation = sample.language, sample.isolation
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        return Provider(entry.name, package, version, error=reason)
    return Provider(entry.name, package, version, loaded, language, isolation)


def language_of(file: str) -> str:
    """Return the language of a program by its file name; stdin is TypeScript.

    Raises:
        Misuse: the suffix is unknown.
    """
    suffix = PurePath(file).suffix.lower()
    language = "typescript" if file == "-" else LANGUAGE_OF_SUFFIX.get(suffix)
    if language is None:
        known = ", ".join(LANGUAGE_OF_SUFFIX)
        raise Misuse(
            f"Cannot tell the language of {file!r}: its suffix is {suffix!r}, "
            f"expected one of {known}, or --language"
        )
    return language


def provider_for(language: str) -> str:
    """Return the name of the provider that runs a language.

    Raises:
        Misuse: none is installed; the text names the package to install.
    """
    names = installed_names()
    if KNOWN_PROVIDERS.get(language) in names:
        return KNOWN_PROVIDERS[language]
    for provider in installed_providers():
        if provider.language == language:
            return provider.name
    known = KNOWN_PROVIDERS.get(language)
    remedy = f"`pip install code-runtime-{known}`" if known else "a provider for it"
    raise Misuse(
        f"Cannot run a program in {language!r}: no installed provider runs it "
        f"(installed: {', '.join(names) or 'none'}), expected {remedy}"
    )
