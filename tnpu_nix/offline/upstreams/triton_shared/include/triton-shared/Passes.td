def TritonToLinalgExperimental : Pass<"triton-to-linalg-experimental", "Triton IR to linalg">;
