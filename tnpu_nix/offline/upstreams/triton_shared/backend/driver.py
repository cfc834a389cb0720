from triton.backends.driver import DriverBase


class CPUDriver(DriverBase):
    """Never active by itself, so that a GPU's driver goes first."""

    @staticmethod
    def is_active():
        return False
