"""Whether the suite speaks to a server or plays records."""


def is_live() -> bool:
    """True: there are no records. The suite also keeps an attribute on this function."""
    return True
