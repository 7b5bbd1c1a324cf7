"""Runs every test of this folder, or those named on the command line (`run.py test_core.Core.test_x`)."""

import pathlib
import sys
import unittest

HERE = str(pathlib.Path(__file__).parent)

if __name__ == "__main__":
    sys.path.insert(0, HERE)
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames(sys.argv[1:]) if sys.argv[1:] else loader.discover(HERE)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    sys.exit(not result.wasSuccessful())
