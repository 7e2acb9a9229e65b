"""The credential of tests that name no key."""

import os


def get_credential(**_options):
    """Returns the account key, a credential for the synchronous and the asynchronous client."""
    return os.environ["ACCOUNT_KEY"]
