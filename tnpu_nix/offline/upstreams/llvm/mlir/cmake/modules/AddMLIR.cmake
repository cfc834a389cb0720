# What MLIR, and the projects that find MLIR, declare their libraries with.
function(add_mlir_library target)
  add_llvm_library(${target} ${ARGN})
endfunction()

function(mlir_tablegen output)
  tablegen(MLIR ${output} ${ARGN})
  set(TABLEGEN_OUTPUT ${TABLEGEN_OUTPUT} PARENT_SCOPE)
endfunction()

# A standalone project builds its tools only when told so: an installed LLVM does not say it.
function(add_mlir_tool target)
  if(LLVM_BUILD_TOOLS)
    add_llvm_tool(${target} ${ARGN})
  endif()
endfunction()
