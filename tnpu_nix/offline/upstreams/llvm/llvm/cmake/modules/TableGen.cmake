# tablegen(<project> <output> <arguments>...) runs <project>-tblgen on LLVM_TARGET_DEFINITIONS.
function(tablegen project output)
  string(TOLOWER ${project} name)
  get_filename_component(source ${LLVM_TARGET_DEFINITIONS} ABSOLUTE)
  set(result ${CMAKE_CURRENT_BINARY_DIR}/${output})
  set(program ${name}-tblgen)
  if(${project}_TABLEGEN_EXE)
    set(program ${${project}_TABLEGEN_EXE})
  endif()
  add_custom_command(OUTPUT ${result}
    COMMAND ${program} ${ARGN} ${source} -o ${result} DEPENDS ${source} VERBATIM)
  set(TABLEGEN_OUTPUT ${TABLEGEN_OUTPUT} ${result} PARENT_SCOPE)
endfunction()

function(add_public_tablegen_target target)
  add_custom_target(${target} DEPENDS ${TABLEGEN_OUTPUT})
endfunction()
