from triton.backends.compiler import BaseBackend


class CUDABackend(BaseBackend):
    @staticmethod
    def supports_target(target):
        return target.backend == "cuda"

    def parse_options(self, options):
        return options

    def add_stages(self, stages, options, language):
        raise RuntimeError("the miniature generates no code for cuda")
