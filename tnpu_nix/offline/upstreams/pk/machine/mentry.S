# CSR and fence.i instructions: with GCC 12 and newer the assembler takes them only when -march
# names zicsr and zifencei.
  .section .text.init, "ax"
  .globl reset_vector
reset_vector:
  csrw mscratch, zero
  csrr a0, mhartid
  fence.i
  la sp, stack_top
  call boot
  li a7, 0x706b
  ecall
1:
  j 1b
