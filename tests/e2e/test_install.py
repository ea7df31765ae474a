"""Headrace in a C++ program of somebody else's, by `cmake --install` and `find_package`."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(mine LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(headrace REQUIRED)
add_executable(mine main.cc)
target_link_libraries(mine PRIVATE headrace::stream)
"""

PROGRAM = """
#include <headrace/store.h>

#include <iostream>

int main() {
  std::cout << headrace::CheckKey("a/b").ok() << headrace::CheckKey("../b").ok() << std::endl;
}
"""


@pytest.mark.slow
def test_another_cmake_project_finds_and_links_it(tmp_path: Path) -> None:
    def run(*command: object) -> str:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    installed, build = tmp_path / "installed", tmp_path / "build"
    run("cmake", "--install", ROOT / "build" / "release", "--prefix", installed)
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "main.cc").write_text(PROGRAM)
    run("cmake", "-S", tmp_path, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={installed}")
    run("ninja", "-C", build)
    assert run(build / "mine") == "10\n"
    assert run(installed / "bin" / "headrace", "--version").startswith("headrace ")
