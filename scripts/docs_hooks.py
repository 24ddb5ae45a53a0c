"""Hooks of mkdocs: pages that stand outside docs/, links out of docs/, and the script for diagrams.

The pages of the repository keep their place, where a forge shows them; the site takes them from
there. Links are written for the repository and turned into links of the site here.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mkdocs.structure.files import File, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[1]
MERMAID: Final = ROOT / "node_modules" / "mermaid" / "dist" / "mermaid.min.js"
MERMAID_URI: Final = "assets/mermaid.min.js"
SEARCH: Final = '<div class="md-search" data-md-component="search" role="dialog"'

# The pages of the site by their place in the repository.
OUTSIDE: Final = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{
        f"packages/{path.parent.name}/README.md": f"packages/{path.parent.name}.md"
        for path in sorted(ROOT.glob("packages/*/README.md"))
    },
}
SOURCES: Final = {uri: source for source, uri in OUTSIDE.items()}

# As in "… or a failure (SC-035, SC-038)".
SPEC_NUMBERS: Final = re.compile(r" ?\((?:[A-Z]{2}-\d{3}(?:, | to )?)+\)")
# Code is taken first, so that nothing inside it looks like a link.
_CODE_OR_LINK: Final = re.compile(
    r"(?P<code>^ *(?P<ticks>`{3,})[^`\n]*\n.*?^ *(?P=ticks)$"
    r"|(?P<tick>`+)(?!`).+?(?<!`)(?P=tick)(?!`))"
    r"|\[(?P<text>(?:[^\[\]`]|`[^`]*`)*)\]\((?P<target>[^()\s]+)\)",
    re.DOTALL | re.MULTILINE,
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the repository that the site shows, and the script that draws diagrams."""
    for source, uri in OUTSIDE.items():
        files.append(File.generated(config, uri, content=(ROOT / source).read_text("utf-8")))
    script = File.generated(
        config, MERMAID_URI, abs_src_path=str(MERMAID), inclusion=InclusionLevel.INCLUDED
    )
    files.append(script)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links and images that lead to files of the repository into those of the site."""
    uri = page.file.src_uri

    def site_link(match: re.Match[str]) -> str:
        if match["code"] is not None:
            return match[0]
        return link_of(match["text"], match["target"], uri, files)

    return _CODE_OR_LINK.sub(site_link, markdown)


def link_of(text: str, target: str, uri: str, files: Files) -> str:
    """Return a link as the site has it, or plain text where it leads to source code.

    Args:
        text: What the link shows.
        target: Where it leads, relative to the page in the repository.
        uri: The page in the site.
        files: The files of the site.
    """
    path, mark, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target) or not path:
        return f"[{text}]({target})"
    source = SOURCES.get(uri, f"docs/{uri}")
    place = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    goal = OUTSIDE.get(place) or OUTSIDE.get(f"{place}/README.md")
    if goal is None and place.startswith("docs/"):
        goal = place.removeprefix("docs/")
    if goal is not None and files.get_file_from_path(goal) is not None:
        return f"[{text}]({posixpath.relpath(goal, posixpath.dirname(uri))}{mark}{anchor})"
    if not (ROOT / place).exists():
        return f"[{text}]({target})"  # the strict build refuses it
    return text if place.rpartition("/")[2] in text else f"{text} (`{place}`)"


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave the numbers of the specification out of the API: no page of the site explains them."""
    return SPEC_NUMBERS.sub("", html) if "/api/" in page.file.src_uri else html


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Load the scripts for diagrams, 3 MB, on the pages that have one; name the search dialog.

    Without them here the theme would fetch mermaid from another machine.
    """
    output = output.replace(SEARCH, f'{SEARCH} aria-label="Search"')
    if 'class="mermaid"' not in output:
        return output
    folder = posixpath.dirname(page.file.dest_uri)
    uris = [posixpath.relpath(uri, folder) for uri in (MERMAID_URI, "assets/diagrams.js")]
    scripts = "".join(f'<script src="{uri}"></script>' for uri in uris)
    return output.replace("</body>", f"{scripts}</body>")
