from __future__ import annotations

import subprocess
import sys

import pytest

import crawl
from crawl import runs, training

PACKAGES = pytest.mark.parametrize("package", [crawl, runs, training], ids=lambda package: package.__name__)


@PACKAGES
def test_all_names_are_there(package):
    for name in package.__all__:
        assert getattr(package, name).__name__ == name
    assert set(package.__all__) <= set(dir(package))


@PACKAGES
def test_a_name_that_is_not_there(package):
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'Nonsense'"):
        _ = package.Nonsense
    with pytest.raises(ImportError):
        exec(f"from {package.__name__} import Nonsense")


def test_modules_are_attributes():
    assert crawl.nn.CRaWlConv is crawl.CRaWlConv
    assert crawl.data.GraphStore.__name__ == "GraphStore"
    assert training.trainer.Trainer is training.Trainer


def test_a_package_is_imported_without_torch_and_kernels_when_they_are_needed():
    """Triton need not be installed, and numba takes a second to import."""
    code = "import sys, crawl.runs.recipes, crawl.training.settings, crawl; assert 'torch' not in sys.modules; "
    code += "import crawl.nn; from crawl.ops import linear, norm, precision, walk_conv, walks; "
    code += "assert 'numba' not in sys.modules; "
    code += "assert not [name for name in sys.modules if name.startswith('crawl.ops.triton')]; "
    code += "crawl.CRaWl; assert 'torch' in sys.modules and 'crawl.estimators' not in sys.modules; "
    code += "from crawl import *; assert CRaWl.__name__ == 'CRaWl'; CRaWlRegressor(); "
    code += "assert 'crawl.estimators' in sys.modules"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
