"""Configures Sphinx for docs/: `make docs` builds the site from it, and every warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "Lockstep"
author = "the authors of Lockstep"
project_copyright = author
language = "en"
root_doc = "index"
exclude_patterns = ["site"]
extensions = ["myst_parser", "pages"]

myst_heading_anchors = 6  # the anchors that a code host gives headings
# A heading level that was left out, and SQL with a template's braces, read well all the same.
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
nitpicky = True
highlight_language = "none"

html_theme = "furo"
html_title = "Lockstep"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
