"""The docstring of srrag.core.errors shows the whole tree of errors, and nothing else."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import srrag
from srrag.core import errors

BUILTIN = {"ValueError", "RuntimeError"}


def defined() -> dict[str, type[BaseException]]:
    found: dict[str, type[BaseException]] = {}
    for module in pkgutil.walk_packages(srrag.__path__, "srrag."):
        for name, item in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(item, BaseException) and item.__module__ == module.name:
                if not name.startswith("_"):
                    found[name] = item
    return found


def shown() -> dict[str, str]:
    """The parent of each class that the docstring shows."""
    assert errors.__doc__
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in errors.__doc__.splitlines():
        if found := re.fullmatch(r"    ((?:│   |    )*)(?:[├└]── )?([A-Z]\w+)(?:  .*)?", line):
            depth = len(found[1]) // 4 + ("── " in line)
            above[depth:] = [found[2]]
            parents[found[2]] = above[depth - 1] if depth else "Exception"
    return parents


def test_the_tree_is_the_one_that_is_raised() -> None:
    classes = defined()
    assert shown().keys() == classes.keys()
    for name, parent in shown().items():
        bases = {base.__name__ for base in classes[name].__bases__} - BUILTIN
        assert bases == {parent}, name


def test_what_the_tree_says_of_builtin_bases_holds() -> None:
    assert errors.__doc__
    for name, base in re.findall(r"── (\w+) +\((\w+)\)", errors.__doc__):
        assert base in {each.__name__ for each in defined()[name].__bases__}, name
