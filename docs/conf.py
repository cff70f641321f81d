"""Sphinx' settings for the site: MyST pages, notebooks executed in the build, an API from `__all__`.

Nothing is fetched when a page is built or read: formulas become MathML (`mathml`), and the theme's files are
its own. Pages of the API and of the gallery are written before the build by `api_pages` and `gallery`, from
the packages' `__all__` and from the registry of experiments.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]
# notebooks run in processes of their own, which find the packages by this variable
os.environ["PYTHONPATH"] = os.pathsep.join(
    part for part in (str(HERE.parent), os.environ.get("PYTHONPATH")) if part
)
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

import bqvi  # noqa: E402

project = "bqvi"
author = "The bqvi developers"
copyright = author
release = version = bqvi.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "numpydoc",
    "myst_nb",
    "mathml",
    "docstrings",
    "api_pages",
    "gallery",
    "llms",
    "accessible",
]
exclude_patterns = ["_build", "acceptance.md", "figures.md", "peers.md"]
templates_path = ["_templates"]
nitpicky = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 3
myst_url_schemes = ["http", "https", "mailto"]
suppress_warnings = ["myst.header"]  # CHANGELOG.md is included below the title of another page

nb_execution_mode = os.environ.get("BQVI_NOTEBOOKS", "cache")
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_timeout = 180
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_ipywidgets_js = {}  # no notebook has widgets, whose scripts would come from another host

autosummary_generate = False  # only tables; `api_pages` lists the names
autodoc_typehints = "none"  # types and shapes are in the docstrings
autodoc_default_options = {"members": True}  # any entry for show-inheritance, False too, shows the bases
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
numpydoc_validation_checks = set()
add_module_names = False
python_use_unqualified_type_names = True

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"bqvi {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["focus.js"]
html_show_sourcelink = False
html_copy_source = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
html_theme_options = {"navigation_with_keys": True}
