"""The build backend that pip calls: scikit-build-core, and the headers that tidu's libraries are compiled with.

They come from packages that contain only headers, so that a compiler is the only requirement. A build that links an installed tidu,
-C cmake.define.TIDU_PYTHON_INSTALLED=ON, does not use them.

Run as a program it prints for each that is there "NAME VERSION FOLDER", the name by which CMake looks for it.
"""

import importlib.metadata

from scikit_build_core import build as _build
from scikit_build_core.build import build_editable, build_sdist, build_wheel  # noqa: F401
from scikit_build_core.build import get_requires_for_build_sdist, prepare_metadata_for_build_wheel  # noqa: F401

# The name for CMake, the package, and the folder of the headers in it.
HEADERS = [
    ("Boost", "libboost-headers", "libboost_headers/include"),
    ("nlohmann_json", "nlohmann-json", "nlohmann_json/include"),
    ("Eigen3", "cmeel-eigen", "cmeel.prefix/include/eigen3"),
]
OLDEST = {"Boost": "1.74", "nlohmann_json": "3.10", "Eigen3": "3.4"}


def _headers(config_settings):
    installed = (config_settings or {}).get("cmake.define.TIDU_PYTHON_INSTALLED", "OFF")
    if str(installed).upper() in ("ON", "1", "TRUE", "YES"):
        return []
    return [f"{package}>={OLDEST[name]}" for name, package, _ in HEADERS]


def get_requires_for_build_wheel(config_settings=None):
    return _build.get_requires_for_build_wheel(config_settings) + _headers(config_settings)


def get_requires_for_build_editable(config_settings=None):
    return _build.get_requires_for_build_editable(config_settings) + _headers(config_settings)


def print_folders():
    for name, package, folder in HEADERS:
        try:
            found = importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            continue
        print(name, found.version, found.locate_file(folder))


if __name__ == "__main__":
    print_folders()
