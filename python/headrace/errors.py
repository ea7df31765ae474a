"""What can go wrong, as exceptions. Their texts say what was being done, to which object, what came back, and what to do."""


class Error(Exception):
    """Everything that Headrace raises is one of these."""


class Conflict(Error):
    """Somebody else was first: the slot, name or object is taken."""


class Fenced(Error):
    """This process lost its strand or decision to a newer owner, and must not write any more."""


class Corrupt(Error):
    """Stored bytes are damaged or missing. The text names the object."""


class NotFound(Error):
    """There is no such stream, step, pin or object."""


class Trimmed(NotFound):
    """It was there once; no pin held it, and it has been reclaimed."""


class Unavailable(Error):
    """The store cannot be reached or refuses to work now. Trying again later may help."""


class OutcomeUnknown(Error):
    """Nobody can tell yet whether the write happened. What was staged has been kept."""


class Stalled(Error, TimeoutError):
    """Nothing arrived within `timeout`. The text says who is late."""


class InvalidArgument(Error, ValueError):
    """The request itself is wrong. The text says what was meant."""


class Unsupported(Error):
    """This version, stream or store cannot do that. The text says which one can."""
