"""The three ways in which something ends without a result."""


class JitmemError(Exception):
    """Base of every error this package raises on purpose."""


class UserError(JitmemError):
    """Wrong input. The message is one sentence that says what to do; nothing was written."""


class InfrastructureError(JitmemError):
    """A timeout, a 429, a dead environment: neither success nor failure, owed again on resume."""
