from abc import ABCMeta, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class GPUTarget:
    backend: str
    arch: int | str
    warp_size: int


class BaseBackend(metaclass=ABCMeta):
    """What a back end offers to the compiler."""

    def __init__(self, target):
        self.target = target

    @staticmethod
    @abstractmethod
    def supports_target(target):
        """Whether kernels can be compiled for the target."""

    @abstractmethod
    def parse_options(self, options):
        """The options object that add_stages is given."""

    @abstractmethod
    def add_stages(self, stages, options, language):
        """Fills `stages`: name -> function of (module, metadata)."""
