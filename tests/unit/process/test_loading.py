"""Finding the App that `module:app` names."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard import App
from callboard.errors import DeclarationError
from callboard.process.loader import load_app, split_target


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with modules; what is imported from it is forgotten."""
    path, modules = list(sys.path), set(sys.modules)
    (tmp_path / "loading_shop.py").write_text(
        "from callboard import App\napp = App('shop')\nother = App('b')\nn = 3\n"
    )
    package = tmp_path / "loading_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("from callboard import App\nclass Apps:\n    main = App('inner')\n")
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_an_app_is_found(folder: Path) -> None:
    assert isinstance(load_app("loading_shop:app", folder), App)
    assert load_app("loading_shop", folder).name == "shop"
    assert load_app("loading_shop:other", folder).name == "b"
    assert load_app("loading_package.inner:Apps.main", folder).name == "inner"


def test_a_missing_module_names_the_nearest(folder: Path) -> None:
    with pytest.raises(DeclarationError, match=r"Did you mean 'loading_shop'\?") as caught:
        load_app("loading_shopp:app", folder)
    assert str(caught.value).startswith("there is no module 'loading_shopp' in ")
    with pytest.raises(DeclarationError, match=r"loading_package\.none"):
        load_app("loading_package.none:app", folder)


def test_a_missing_import_inside_the_module_is_another_error(folder: Path) -> None:
    (folder / "loading_broken.py").write_text("\nimport no_such_thing_here\n")
    with pytest.raises(DeclarationError, match="No module named 'no_such_thing_here'") as caught:
        load_app("loading_broken:app", folder)
    assert str(caught.value).endswith(f" at {folder / 'loading_broken.py'}:2")


def test_what_callboard_refuses_is_placed_where_the_user_wrote_it(folder: Path) -> None:
    (folder / "loading_refused.py").write_text("from callboard import App\n\napp = App('two words')\n")
    with pytest.raises(DeclarationError, match="SettingValueError") as caught:
        load_app("loading_refused:app", folder)
    assert str(caught.value).endswith(f" at {folder / 'loading_refused.py'}:3")


def test_a_syntax_error_says_where(folder: Path) -> None:
    (folder / "loading_syntax.py").write_text("def f(:\n")
    with pytest.raises(DeclarationError, match=r"loading_syntax\.py, line 1"):
        load_app("loading_syntax:app", folder)


def test_a_module_that_exits_says_so(folder: Path) -> None:
    (folder / "loading_exits.py").write_text("import sys\nsys.exit('no key is set')\n")
    with pytest.raises(DeclarationError, match=r"SystemExit: no key is set at .*loading_exits\.py:2"):
        load_app("loading_exits:app", folder)


def test_a_missing_name_lists_the_apps(folder: Path) -> None:
    with pytest.raises(DeclarationError, match=r"Its apps: app, other\."):
        load_app("loading_shop:ap", folder)
    (folder / "loading_empty.py").write_text("")
    with pytest.raises(DeclarationError, match=r"add `app = App\(\.\.\.\)` to it"):
        load_app("loading_empty:app", folder)


def test_something_else_is_refused(folder: Path) -> None:
    with pytest.raises(DeclarationError, match="loading_shop:App is the class App, not App"):
        load_app("loading_shop:App", folder)
    with pytest.raises(
        DeclarationError, match=r"loading_shop:n is of class int, not App; its apps: app, other"
    ):
        load_app("loading_shop:n", folder)


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("shop.py:app", "shop:app"),
        ("./inner/shop.py", "inner.shop:app"),
        ("", "module:app"),
        ("a b:app", "module:app"),
        ("shop:", "has to be a name"),
        ("shop:1", "has to be a name"),
    ],
)
def test_a_target_of_another_form_gets_advice(target: str, advice: str) -> None:
    with pytest.raises(DeclarationError, match=advice):
        split_target(target)


@pytest.mark.parametrize("name", ["actors", "broker", "memory"])
def test_an_app_may_be_called_like_a_link_of_ours(folder: Path, name: str) -> None:
    (folder / f"{name}.py").write_text("from callboard import App\napp = App('own')\n")
    assert load_app(name, folder).name == "own"


def test_a_file_with_the_name_of_our_package_is_refused(folder: Path) -> None:
    (folder / "callboard.py").write_text("")
    with pytest.raises(DeclarationError, match=r"give the file callboard\.py another name"):
        load_app("callboard:app", folder)
