"""placeholder"""


def demo() -> None:
    """Play"""
