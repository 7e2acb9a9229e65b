"""A pytest plugin that tells the suite where the emulator is.

The suite takes an account for the vendor's emulator if it is at `https://localhost:8081/`, and then runs tests that it
leaves out otherwise. Here the emulator's place is taken by a server on a free port, so its address is said anew before
a test file is imported.
"""

import os

import test_config

test_config.TestConfig.local_host = test_config.TestConfig.host
test_config.TestConfig.is_emulator = True
