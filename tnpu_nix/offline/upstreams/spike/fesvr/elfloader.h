#pragma once
#include "riscv/memory.h"

struct loaded_elf_t {
  uint64_t entry = 0;
  uint64_t end = 0; // first address past everything that was loaded
  std::string note; // text of the tnpu-nix note, "" when there is none
};

/// Loads a static RV64 executable; throws std::runtime_error with a message that names the file.
loaded_elf_t load_elf(const std::string &path, memory_t &memory);
