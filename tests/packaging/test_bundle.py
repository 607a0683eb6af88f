"""What goes into the .app, and what is found out about it before a Mac has seen it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import bundle
import pytest

from tests.packaging import macs

ROOT = Path(__file__).parents[2]
ROOM = 1_000_000


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Packages for macOS 14, of which nothing is wrong: MLX, and a module that loads it."""
    put(tmp_path, "mlx/lib/libmlx.dylib", macs.image(kind=macs.LIBRARY, needs=["/usr/lib/libSystem.B.dylib"]))
    put(tmp_path, "mlx/lib/mlx.metallib", b"kernels")
    put(tmp_path, "mlx/core.so", macs.image(needs=["@rpath/libmlx.dylib"], rpaths=["@loader_path/lib"]))
    wheel(tmp_path, "mlx", "cp313-cp313-macosx_14_0_arm64")
    wheel(tmp_path, "ziamath", "py3-none-any")
    return tmp_path


def put(folder: Path, name: str, data: bytes) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def wheel(folder: Path, name: str, *tags: str, version: str = "") -> None:
    """What a wheel says of itself; its version is the lock's if no other is given."""
    version = version or bundle.locked()[name][0]
    said = [f"Name: {name}", f"Version: {version}", *(f"Tag: {tag}" for tag in tags)]
    for file in ("WHEEL", "METADATA"):
        put(folder, f"{name}.dist-info/{file}", "\n".join(said).encode())


def test_of_packages_that_run_nothing_is_said(packages: Path) -> None:
    assert bundle.findings(packages, "14.4", ROOM) == []


def test_p02_a_wheel_for_a_newer_macos_is_refused(packages: Path) -> None:
    wheel(packages, "mlx-metal", "py3-none-macosx_26_0_arm64")
    (found,) = bundle.findings(packages, "14.4", ROOM)
    assert found == "mlx-metal is for py3-none-macosx_26_0_arm64, not for macOS 14.4 on arm64"
    assert bundle.findings(packages, "26.2", ROOM) == []


@pytest.mark.parametrize("tag", ["cp313-cp313-manylinux_2_28_aarch64", "cp313-cp313-macosx_11_0_x86_64"])
def test_p02_a_wheel_for_another_machine_is_refused(packages: Path, tag: str) -> None:
    wheel(packages, "regex", tag)
    assert len(bundle.findings(packages, "14.4", ROOM)) == 1


def test_p02_one_tag_that_fits_is_enough(packages: Path) -> None:
    wheel(packages, "regex", "cp313-abi3-macosx_11_0_universal2", "cp313-abi3-macosx_26_0_arm64")
    assert bundle.findings(packages, "14.4", ROOM) == []


@pytest.mark.parametrize(("name", "version"), [("regex", "0.1"), ("left-pad", "1.0")])
def test_a_package_that_the_lock_does_not_have_is_found(packages: Path, name: str, version: str) -> None:
    wheel(packages, name, "py3-none-any", version=version)
    assert bundle.findings(packages, "14.4", ROOM) == [f"{name} {version} is not what the lock names"]


def test_p02_a_library_may_be_newer_than_its_wheel_says(packages: Path) -> None:
    put(packages, "PySide6/QtGui.so", macs.image(minos=(26, 0)))
    assert bundle.findings(packages, "14.4", ROOM) == ["PySide6/QtGui.so is built for macOS 26.0"]


def test_a_library_without_an_image_for_arm64_is_found(packages: Path) -> None:
    put(packages, "old.so", macs.image(processor=macs.X86_64))
    assert bundle.findings(packages, "14.4", ROOM) == ["old.so has no image for arm64"]


def test_of_a_library_for_both_only_the_image_for_arm64_counts(packages: Path) -> None:
    intel = macs.image(processor=macs.X86_64, minos=(26, 0), needs=["/opt/intel.dylib"])
    put(packages, "both.so", macs.fat((macs.X86_64, intel), (macs.ARM64, macs.image())))
    assert bundle.findings(packages, "14.4", ROOM) == []


@pytest.mark.parametrize(
    "needed", ["@rpath/libnone.dylib", "@loader_path/libnone.dylib", "/usr/local/lib/libpq.5.dylib", "libnone.dylib"]
)
def test_p01_a_library_that_needs_what_is_nowhere_is_found(packages: Path, needed: str) -> None:
    put(packages, "mlx/core.so", macs.image(needs=[needed], rpaths=["@loader_path/lib"]))
    assert bundle.findings(packages, "14.4", ROOM) == [f"mlx/core.so needs {needed}, which is nowhere"]


def test_p01_what_loads_a_library_lends_it_its_folders(packages: Path) -> None:
    """MLX for macOS 26 names no folder in which its own libraries are; the module that loads it does."""
    put(packages, "mlx/lib/libmlx.dylib", macs.image(kind=macs.LIBRARY, needs=["@rpath/libjaccl.dylib"]))
    put(packages, "mlx/lib/libjaccl.dylib", macs.image(kind=macs.LIBRARY, needs=["@rpath/libdeeper.dylib"]))
    put(packages, "mlx/lib/libdeeper.dylib", macs.image(kind=macs.LIBRARY))
    assert bundle.findings(packages, "14.4", ROOM) == []
    (packages / "mlx/core.so").unlink()
    assert len(bundle.findings(packages, "14.4", ROOM)) == 2


def test_what_a_library_would_merely_like_may_be_missing(packages: Path) -> None:
    put(packages, "some.so", macs.image(wants=["@rpath/libnone.dylib"]))
    assert bundle.findings(packages, "14.4", ROOM) == []


def test_p01_the_kernels_must_lie_beside_mlx(packages: Path) -> None:
    (packages / "mlx/lib/mlx.metallib").rename(packages / "mlx/mlx.metallib")
    assert bundle.findings(packages, "14.4", ROOM) == ["mlx.metallib does not lie beside libmlx.dylib"]


def test_p01_a_second_copy_of_mlx_is_found(packages: Path) -> None:
    put(packages, "lib/libmlx.dylib", macs.image(kind=macs.LIBRARY))
    assert bundle.findings(packages, "14.4", ROOM) == ["libmlx.dylib is there 2 times"]


def test_p03_a_program_among_the_packages_is_found(packages: Path) -> None:
    put(packages, "PySide6/lupdate", macs.image(kind=macs.PROGRAM))
    (found,) = bundle.findings(packages, "14.4", ROOM)
    assert found.startswith("PySide6/lupdate is a program")


def test_p03_a_library_that_nobody_would_sign_is_found(packages: Path) -> None:
    put(packages, "odd/library.bin", macs.image())
    (found,) = bundle.findings(packages, "14.4", ROOM)
    assert found.startswith("odd/library.bin would not be signed")
    (packages / "odd/library.bin").chmod(0o755)
    assert bundle.findings(packages, "14.4", ROOM) == []


def test_a_file_that_is_cut_off_is_found(packages: Path) -> None:
    put(packages, "half.so", macs.image()[:40])
    (found,) = bundle.findings(packages, "14.4", ROOM)
    assert "half.so is cut off" in found


def test_too_much_is_found(packages: Path) -> None:
    put(packages, "much.bin", bytes(3_000_000))
    assert bundle.findings(packages, "14.4", ROOM) == ["the packages have 3 MB; there is room for 1"]


def test_of_a_library_for_both_only_what_is_kept_has_a_size(packages: Path) -> None:
    before = bundle.sizes(packages)["mlx"]
    intel, apple = macs.image(processor=macs.X86_64, padding=9000), macs.image(padding=500)
    put(packages, "mlx/both.so", macs.fat((macs.X86_64, intel), (macs.ARM64, apple)))
    assert bundle.sizes(packages)["mlx"] == before + len(apple)


def test_cleaning_removes_what_is_named_and_tells_what_names_nothing(packages: Path) -> None:
    put(packages, "numpy/_core/tests/test.py", b"")
    put(packages, "numpy/_core/core.py", b"")
    assert bundle.clean(packages, ("**/tests", "mlx/*.so", "PySide6/doc")) == ["PySide6/doc"]
    left = [str(path.relative_to(packages)) for path in bundle.files(packages) if "dist-info" not in str(path)]
    assert left == ["mlx/lib/libmlx.dylib", "mlx/lib/mlx.metallib", "numpy/_core/core.py"]


def test_there_is_bytecode_for_what_every_start_imports_and_it_outlives_a_copy(tmp_path: Path) -> None:
    names = ["app/main.py", "transformers/models/auto/tokens.py", "transformers/models/rare/tokens.py"]
    for name in names:
        put(tmp_path / "built", name, b"from math import inf\n")
    bundle.compile_folder(sys.executable, tmp_path / "built")
    assert [bool(list((tmp_path / "built" / name).parent.glob("__pycache__/*"))) for name in names] == [
        True,
        True,
        False,
    ]
    shutil.copytree(tmp_path / "built", tmp_path / "copied", copy_function=shutil.copyfile)
    (tmp_path / "copied" / "app" / "main.py").write_text("raise SystemExit('compiled anew')")
    code = "import main; print(main.inf, main.__file__)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "copied" / "app", capture_output=True, text=True)
    assert ran.stdout == f"inf {tmp_path / 'copied' / 'app' / 'main.py'}\n", ran.stderr


# ------------------------------------------------------------ fetching


def failing_uv(folder: Path, script: str) -> str:
    uv = folder / "uv"
    uv.write_text(f"#!/bin/sh\n{script}\n")
    uv.chmod(0o755)
    return str(uv)


def test_packages_that_cannot_be_had_end_it_with_a_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="uv failed with exit code 2"):
        bundle.resolve(tmp_path / "packages", "14.4", failing_uv(tmp_path, "exit 2"))


def test_packages_that_do_not_arrive_are_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "FETCH_S", 0.1)
    with pytest.raises(SystemExit, match=r"did not arrive within 0\.1 s\. What did is kept"):
        bundle.resolve(tmp_path / "packages", "14.4", failing_uv(tmp_path, "exec tail -f /dev/null"))


# ------------------------------------------------------------ what pyproject.toml says


REPLY = """
import sys
import app.main, app.views.window, engine.librarian, engine.server.server, keyring.backends.macOS
from engine import cli
sys.argv[1:] = ["generate", "guide", "--prompt", "What is MTP?", "--max-tokens", "8"]
raise SystemExit(cli.main())
"""
"""All that the window imports, and a reply."""


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of this environment as links, without what the .app goes without of those that lose most."""
    site, folder = Path(pytest.__file__).parents[1], tmp_path_factory.mktemp("cleaned")
    globs = bundle.recipe().cleanup
    lose = {glob.partition("/")[0] for glob in globs if "/" in glob} - {"**"}  # which goes into no link
    assert lose == {"PySide6", "mlx", "transformers"}
    for path in site.iterdir():
        if path.name in lose:
            shutil.copytree(path, folder / path.name, copy_function=os.symlink)
        else:
            (folder / path.name).symlink_to(path)
    bundle.clean(folder, globs)
    return folder


def reply_over(packages: Path) -> subprocess.CompletedProcess[str]:
    """REPLY, with these packages and no others."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(packages)])}
    command = [sys.executable, "-S", "-c", REPLY]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)


def test_nothing_is_removed_that_is_needed_at_run_time(cleaned: Path) -> None:
    assert not (cleaned / "PySide6" / "QtQml.abi3.so").exists()
    ran = reply_over(cleaned)
    assert ran.returncode == 0, ran.stderr
    assert "MTP" in ran.stdout


def test_what_is_needed_and_removed_would_be_noticed(cleaned: Path) -> None:
    assert bundle.clean(cleaned, ("platformdirs",)) == []
    assert "No module named 'platformdirs'" in reply_over(cleaned).stderr


@pytest.mark.parametrize(
    "plugin", ["platforms/libqcocoa", "styles/libqmacstyle", "imageformats/libqsvg", "iconengines/x"]
)
def test_the_plugins_that_the_window_needs_are_kept(plugin: str) -> None:
    named = "|".join(map(expression, bundle.recipe().cleanup))
    assert not re.fullmatch(named, f"PySide6/Qt/plugins/{plugin}.dylib")
    assert re.fullmatch(named, "PySide6/Qt/plugins/qmltooling/libqmldbg_server.dylib")


def expression(glob: str) -> str:
    """What a path fits that the glob names, or that lies in a folder which it names."""
    parts = {"**/": "(?:.*/)?", "*": "[^/]*"}
    return "".join(parts.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*)", glob)) + "(?:/.*)?"


def test_the_lock_is_what_is_installed_and_each_of_its_files_has_a_hash() -> None:
    assert bundle.declared()["requirement_installer_args"] == ["--constraint", "./requirements.lock"]
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pinned = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert len(pinned) == sum(map(len, bundle.locked().values()))
    assert all("==" in line and line.endswith("\\") for line in pinned)


def test_the_lock_has_what_only_a_mac_needs() -> None:
    assert "\nmlx-metal==" in (ROOT / "requirements.lock").read_text()


def test_each_source_is_there_and_one_of_them_is_the_program() -> None:
    sources = bundle.declared()["sources"]
    assert sources == ["app", "engine", "resources", "packaging/foreword"]
    assert all((ROOT / source).is_dir() for source in sources)
    assert (ROOT / "packaging" / "foreword" / "__main__.py").is_file()


def test_the_version_stands_in_one_place() -> None:
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" not in said["tool"]["briefcase"]
    assert "version" not in bundle.declared()
    assert version("foreword") == said["project"]["version"]


def test_it_is_made_for_apple_silicon_from_macos_14_4_and_for_26_2_when_asked() -> None:
    mac = bundle.declared()["macOS"]
    assert mac["universal_build"] is False
    assert mac["info"]["LSArchitecturePriority"] == ["arm64"]
    assert (bundle.recipe().minimum, bundle.recipe("26").minimum) == ("14.4", "26.2")
    with pytest.raises(SystemExit, match="FOREWORD_MACOS can be 26"):
        bundle.recipe("27")


def test_it_may_do_no_more_than_it_must() -> None:
    """A new entitlement is a decision: it is named here, and in pyproject.toml with its reason."""
    assert bundle.declared()["macOS"]["entitlement"] == {
        "com.apple.security.cs.allow-jit": True,
        "com.apple.security.cs.allow-unsigned-executable-memory": True,
        "com.apple.security.cs.disable-library-validation": True,
    }


def test_it_opens_json_when_asked_and_links_to_models() -> None:
    info = bundle.declared()["macOS"]["info"]
    (document,), (link,) = info["CFBundleDocumentTypes"], info["CFBundleURLTypes"]
    assert (document["LSItemContentTypes"], document["LSHandlerRank"]) == (["public.json"], "Alternate")
    assert link["CFBundleURLSchemes"] == ["foreword"]


def test_it_is_listed_as_what_it_is() -> None:
    info = bundle.declared()["macOS"]["info"]
    assert info["LSApplicationCategoryType"] == "public.app-category.productivity"
    assert info["NSHighResolutionCapable"] is True
