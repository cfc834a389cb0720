#include "note.h"

NOTE("pk " VERSION);

static volatile uint8_t bss[64];
static volatile uint32_t data[4] = {1, 2, 3, 4};

// Returns 0 when memory is what the linker script promised; spike refuses to go on otherwise.
int boot(uint64_t hart) {
  for (unsigned i = 0; i < sizeof bss; ++i)
    if (bss[i])
      return 1;
  for (unsigned i = 0; i < 4; ++i)
    if (data[i] != i + 1)
      return 2;
  return hart != 0;
}
