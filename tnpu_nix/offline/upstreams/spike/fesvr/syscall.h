#pragma once
#include "riscv/processor.h"

/// Serves the system calls of a user program.
class syscall_t {
public:
  syscall_t(processor_t &processor, memory_t &memory, uint64_t heap)
      : p(processor), mem(memory), heap_end(heap) {}
  /// Handles the ecall that the processor is at; false when the program has ended.
  bool dispatch();
  int exit_code = 0;

private:
  processor_t &p;
  memory_t &mem;
  uint64_t heap_end;
  uint64_t write(uint64_t descriptor, uint64_t address, uint64_t size);
  uint64_t brk(uint64_t end);
};
