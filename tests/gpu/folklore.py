# SPDX-License-Identifier: Apache-2.0
"""The folklore of out-of-memory errors on a real GPU that nothing else uses: the programs and checks of functional/folklore.py. The
programs take what is free on the device, or little of it. Four minutes."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "functional"))
import folklore  # noqa: E402
from harness import main, target  # noqa: E402


class Gpu(folklore.Device):
    simulated = False
    beside = 3

    @staticmethod
    def versions():
        done = subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True, check=True)
        return [done.stdout.strip()]

    @staticmethod
    def python(version):  # pylint: disable=unused-argument
        return [sys.executable]

    @staticmethod
    def start(version, argv, env):
        return target([*Gpu.python(version), "-B", "-W", "ignore", *argv], ready="READY", env=env, start_new_session=True,
                               stderr=subprocess.DEVNULL)

    @staticmethod
    def environment(mib=None, **more):  # pylint: disable=unused-argument
        return dict(os.environ)

    @staticmethod
    def others(known):  # pylint: disable=unused-argument
        return None


folklore.device = Gpu
for test, function in list(vars(folklore).items()):
    if test.startswith("test_"):
        globals()[test.replace("test_", "test_folklore_", 1)] = function

if __name__ == "__main__":
    sys.exit(main(globals()))
