#include "fesvr/syscall.h"
#include <cerrno>
#include <stdexcept>
#include <unistd.h>

uint64_t syscall_t::write(uint64_t descriptor, uint64_t address, uint64_t size) {
  if (descriptor != 1 && descriptor != 2)
    return -EBADF;
  std::string bytes;
  for (uint64_t i = 0; i < size; ++i)
    bytes += mem.load<char>(address + i);
  for (size_t done = 0; done < bytes.size();) {
    ssize_t written = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written < 0)
      return -errno;
    done += written;
  }
  return size;
}

uint64_t syscall_t::brk(uint64_t end) {
  if (end > heap_end) {
    mem.map(heap_end, end - heap_end);
    heap_end = end;
  }
  return heap_end;
}

bool syscall_t::dispatch() {
  uint64_t number = p.get(17), a0 = p.get(10);
  switch (number) {
  case 64: p.set(10, write(a0, p.get(11), p.get(12))); return true;
  case 214: p.set(10, brk(a0)); return true;
  case 93:
  case 94: exit_code = a0 & 0xff; return false;
  default: throw std::runtime_error("bad syscall #" + std::to_string(number) + "!");
  }
}
