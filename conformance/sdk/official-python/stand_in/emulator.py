"""A pytest plugin that tells the suite the address of the emulator.

The suite treats an account at `https://localhost:8081/` as the vendor's emulator, and then runs tests that it omits
otherwise. Here a server on a free port replaces the emulator, so its address is set before a test file is imported.
"""

import os

import test_config

test_config.TestConfig.local_host = test_config.TestConfig.host
test_config.TestConfig.is_emulator = True
