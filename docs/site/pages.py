"""Extends Sphinx: the tree of pages comes from lists of links, and links to the repository's files lead to pages.

Markdown stays as a code host shows it. `index.md` and `decisions/README.md` are lists of links under headings. Each such
heading becomes a part of the tree.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from markdown_it import MarkdownIt
from mdit_py_plugins.anchors import anchors_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.errors import SphinxError
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

LISTS = {"index", "decisions/README"}
LISTED = re.compile(r"^- \[[^\]]+\]\(([\w./-]+)\.md\)", re.MULTILINE)
FOLDER = "repository"
LINKED: set[str] = set()  # the pages of files that this build has links to
ROOT = Path(__file__).parents[2]
# A page may link to other hosts. It may not load anything from them.
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href|srcset)=\"((?:https?:)?//[^\"]+)\"")
IMPORTED = re.compile(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)")


def add_tree(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Adds the tree of the pages that a list of links names, part by part."""
    if docname not in LISTS:
        return
    _, *parts = re.split(r"^## (.+)$", source[0], flags=re.MULTILINE)
    for caption, text in zip(parts[::2], parts[1::2], strict=True):
        if listed := LISTED.findall(text):
            lines = ["```{toctree}", ":hidden:", f":caption: {caption}", "", *listed, "```"]
            source[0] += "\n\n" + "\n".join(lines) + "\n"


class RepositoryLinks(SphinxTransform):
    """A transform of links to files outside of docs/: each leads to a page of the site with that file's text."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Replaces each such link. Links to files inside of docs/ stay downloads."""
        for link in list(self.document.findall(addnodes.download_reference)):
            self._lead(link, Path(self.env.relfn2path(link["reftarget"], self.env.docname)[1]).resolve())
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link.get("refdomain") == "doc" and link["reftarget"].startswith("/"):  # Markdown outside of docs/
                self._lead(link, Path(f"{link['reftarget']}.md").resolve())

    def _lead(self, link: nodes.Element, path: Path) -> None:
        if not path.is_relative_to(ROOT) or path.is_relative_to(self.env.srcdir):
            return
        page = f"{FOLDER}/{path.relative_to(ROOT)}"
        LINKED.add(page)
        uri = self.app.builder.get_relative_uri(self.env.docname, page)
        link.replace_self(nodes.reference("", "", *link.children, refuri=uri, internal=True))


def repository_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yields a page for each file that a link leads to, and for those that its own links lead to."""
    shown: set[str] = set()
    while left := sorted(LINKED - shown):
        for page in left:
            name = page.removeprefix(f"{FOLDER}/")
            text = (ROOT / name).read_text(encoding="utf-8")
            body = _prose(app, name, text) if name.endswith(".md") else f"<h1>{name}</h1>\n{_listing(name, text)}"
            yield page, {"title": name, "body": body}, "page.html"
        shown.update(left)


def _listing(name: str, text: str) -> str:
    try:
        lexer = get_lexer_for_filename(name)
    except ClassNotFound:
        lexer = TextLexer()
    return highlight(text, lexer, HtmlFormatter(linenos="inline", cssclass="highlight"))


def _prose(app: Sphinx, name: str, text: str) -> str:
    """Returns Markdown from outside of docs/ as HTML. Its links and pictures lead to where they lead in the repository."""
    markdown = MarkdownIt("commonmark").enable("table").use(anchors_plugin, max_level=6)
    tokens = markdown.parse(text)
    for token in (each for block in tokens for each in block.children or ()):
        for attribute in ("href", "src"):
            link = str(token.attrs.get(attribute, "#"))
            if not link.startswith("#") and not re.match(r"[a-z]+:", link):
                token.attrs[attribute] = _place(app, name, link)
    return str(markdown.renderer.render(tokens, markdown.options, {}))


def _place(app: Sphinx, name: str, link: str) -> str:
    """Returns the address of what a link in a file of the repository means, seen from that file's page."""
    path, _, anchor = link.partition("#")
    target = (ROOT / name).parent.joinpath(path).resolve()
    if not target.is_relative_to(ROOT) or not target.is_file():
        raise SphinxError(f"{name}: {link} leads nowhere")
    here, there = f"{FOLDER}/{name}", f"{FOLDER}/{target.relative_to(ROOT)}"
    if target.suffix in {".png", ".svg"}:
        copy = Path(app.outdir, there)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(target, copy)
        return os.path.relpath(there, Path(here).parent)
    if (document := app.env.path2doc(target)) and document in app.env.found_docs:
        slugs = app.env.metadata[document].get("myst_slugs", {})
        if anchor and anchor not in slugs:
            raise SphinxError(f"{name}: {link} leads nowhere")
        return app.builder.get_relative_uri(here, document) + (f"#{slugs[anchor][1]}" if anchor else "")
    LINKED.add(there)
    return app.builder.get_relative_uri(here, there) + (f"#{anchor}" if anchor else "")


def refuse_other_hosts(app: Sphinx, exception: Exception | None) -> None:
    """Fails the build if a page loads a script, a style, a font or a picture from another host."""
    if exception is not None:
        return
    for file in sorted(Path(app.outdir).rglob("*")):
        if file.suffix in {".html", ".css"}:
            pattern = LOADED if file.suffix == ".html" else IMPORTED
            if found := pattern.search(file.read_text(encoding="utf-8")):
                raise SphinxError(f"{file.relative_to(app.outdir)} loads {found[1]}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects the above. Each build reads every page anew, so nothing is kept between two builds."""
    LINKED.clear()
    app.connect("source-read", add_tree)
    app.connect("html-collect-pages", repository_pages)
    app.connect("build-finished", refuse_other_hosts)
    app.add_transform(RepositoryLinks)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
