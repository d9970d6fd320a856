"""Configuration of the documentation; `make docs` builds it, without network and with warnings as errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The examples are small: several threads of BLAS would only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

import spom  # noqa: E402 - the path comes first

project = "spom"
author = "The spom developers"
copyright = f"2026, {author}"
release = version = spom.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    # Ours, in _ext: formulas as MathML, docstrings as plain text, pages written from the code itself.
    "mathml",
    "docstrings",
    "generate",
    "reproductions",
]
html_math_renderer = "mathml"

# `name` in prose links to what is documented under that name, and is plain code otherwise.
default_role = "py:obj"
# Dashes and quotes stay as they are typed: much of the text is code.
smartquotes = False
exclude_patterns = [
    "_build",
    "guide/defaults-tables.rst",
    "guide/scale-model.rst",
    "generated/*.inc",
    "auto_examples/*.ipynb",
]
templates_path: list[str] = []

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_type_aliases = {name: name for name in ("Floats", "Ints", "ArrayLike", "States", "Rule")}

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"demo\.py",
    # That page loads its scripts from the network.
    "write_computation_times": False,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 60,
    "show_signature": False,
    "reset_modules": ("matplotlib",),
    # A figure that is drawn again must be the same file.
    "compress_images": (),
}

html_theme = "furo"
html_title = f"spom {release}"
html_static_path = ["_static"]
html_css_files = ["spom.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1b5e7a", "color-brand-content": "#1b5e7a"},
    "dark_css_variables": {"color-brand-primary": "#7cc4e0", "color-brand-content": "#7cc4e0"},
    "navigation_with_keys": True,
}
pygments_style = "friendly"
pygments_dark_style = "native"
