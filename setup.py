"""Builds libbochner with CMake and puts it into the package, beside the declarations made from its headers.

BOCHNER_BUILD names a build directory of CMake to use (make python does this); otherwise the library is built in a directory of
setuptools. BOCHNER_NOTICES lists license files of libraries that the wheel will carry (make wheel). Everything else is in
pyproject.toml.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

SOURCE = pathlib.Path(__file__).resolve().parent


def version() -> str:
    text = (SOURCE / "include" / "bochner" / "base.h").read_text(encoding="utf-8")
    return re.search(r'#define BO_VERSION_STRING "([^"]+)"', text).group(1)


def build_library(build: pathlib.Path) -> pathlib.Path:
    """Builds the shared library and returns its path."""
    subprocess.run([str(SOURCE / "scripts" / "setup"), "build"], check=True)
    if not (build / "CMakeCache.txt").exists():
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        options = ["-DBOCHNER_TESTS=OFF", "-DBOCHNER_MPI=OFF", "-DBOCHNER_XSMM=OFF", "-DBOCHNER_WERROR=OFF"]
        subprocess.run(["cmake", "-S", str(SOURCE), "-B", str(build), *ninja, *options], check=True)
    jobs = str(len(os.sched_getaffinity(0)))
    subprocess.run(["cmake", "--build", str(build), "--parallel", jobs, "--target", "bochner_shared"], check=True)
    return build / "libbochner.so"


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        given = os.environ.get("BOCHNER_BUILD")
        library = build_library(pathlib.Path(given or self.get_finalized_command("build").build_temp).resolve())
        package = pathlib.Path(self.build_lib) / "bochner"
        package.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, str(SOURCE / "python" / "bindings.py"), str(package / "_bindings.py")], check=True)
        shutil.copyfile(library.resolve(), package / "libbochner.so")
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-unneeded", str(package / "libbochner.so")], check=True)
        for notice in map(pathlib.Path, os.environ.get("BOCHNER_NOTICES", "").split()):
            (package / "licenses").mkdir(exist_ok=True)
            shutil.copyfile(notice, package / "licenses" / f"{notice.parent.name}.txt")


class WithLibrary(Distribution):
    """A wheel with a library is for one platform, but for every version of Python."""

    def has_ext_modules(self) -> bool:
        return True


commands = {"build_py": BuildWithLibrary}
try:
    from wheel.bdist_wheel import bdist_wheel

    class PlatformWheel(bdist_wheel):
        def get_tag(self):
            return "py3", "none", super().get_tag()[2]

    commands["bdist_wheel"] = PlatformWheel
except ImportError:  # only needed for a wheel
    pass

setup(version=version(), distclass=WithLibrary, cmdclass=commands)
