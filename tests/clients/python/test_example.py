"""The example app runs and prints what all examples print."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

from help import LODGE, Test, environment

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


class Example(Test):
    def test_the_example_app_does_its_five_things(self):
        app = subprocess.Popen(
            [sys.executable, EXAMPLES / "python/app.py"],
            cwd=self.work,
            env=environment(LODGE_BIN=LODGE),
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = app.communicate(timeout=60)
        finally:
            # With its hosts, should it hang.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(app.pid, signal.SIGKILL)
        self.assertEqual(printed, (EXAMPLES / "expected.txt").read_text())
