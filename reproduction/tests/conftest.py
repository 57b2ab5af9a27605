"""What the tests of the reproduction share with those of the library."""

from tests.conftest import interruptible  # noqa: F401
