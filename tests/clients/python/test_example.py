"""The example app runs and prints what all examples print."""

import pathlib
import subprocess
import sys

from help import LODGE, Test, environment

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples"


class Example(Test):
    def test_the_example_app_does_its_five_things(self):
        done = subprocess.run(
            [sys.executable, EXAMPLES / "python/app.py"],
            cwd=self.work,
            env=environment(LODGE_BIN=LODGE),
            stdout=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        self.assertEqual(done.stdout, (EXAMPLES / "expected.txt").read_text())
