"""What the suite signs in with where it does not name a key."""

import os


def get_credential(**_options):
    """The account key, which is a credential for the synchronous and the asynchronous client alike."""
    return os.environ["ACCOUNT_KEY"]
