"""stub"""


class EvolveHarness: ...
