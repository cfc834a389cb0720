#include "note.h"

NOTE("bbl " VERSION);

// A boot loader without a payload: there is nothing to boot.
int boot(uint64_t hart) {
  (void)hart;
  return 1;
}
