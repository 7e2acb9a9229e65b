"""The switch between a live server and recorded answers."""


def is_live() -> bool:
    """Returns True: there are no recorded answers. The suite also sets an attribute on this function."""
    return True
