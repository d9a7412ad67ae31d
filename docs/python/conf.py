"""The reference of the Python package, made by Sphinx from its docstrings: make docs, then build/docs/python/index.html."""

import bochner

project = "Bochner"
author = "the Bochner authors"
version = release = bochner.__version__
extensions = ["sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_mock_imports = ["torch", "transformers"] if __import__("importlib.util").util.find_spec("torch") is None else []
numpydoc_show_class_members = False
nitpicky = False
html_theme = "alabaster"
html_theme_options = {"description": "Linear-time attention and kernel machines", "page_width": "1100px"}
html_show_sourcelink = False
