"""Put compiled kernels into the wheel; `SPOM_KERNELS` names the folder that `tools/wheel.py` has filled."""

from __future__ import annotations

import os
import sys
import sysconfig
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):  # type: ignore[misc]
    """Compiled code is bound to Python, the platform, numba and llvmlite; the wheel says so."""

    PLUGIN_NAME = "custom"

    def initialize(self, version_name: str, build_data: dict[str, Any]) -> None:
        """Add the files, the tag and the exact versions."""
        folder = os.environ.get("SPOM_KERNELS")
        if not folder:
            return
        python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"{python}-{python}-{platform}"
        build_data["force_include"][folder] = "spom/_kernels"
        build_data["dependencies"] = os.environ["SPOM_KERNELS_NEED"].split()
