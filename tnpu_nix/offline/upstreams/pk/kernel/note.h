// The ELF note by which the miniature spike knows what it was given.
#pragma once
#include <stdint.h>

#define NOTE(text)                                                        \
  __attribute__((section(".note.tnpu-nix"), used, aligned(4))) static const struct { \
    uint32_t name_size, text_size, type;                                  \
    char name[12], content[sizeof(text)];                                 \
  } note = {9, sizeof(text), 1, "tnpu-nix", text}
