#include "fesvr/elfloader.h"
#include <algorithm>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <stdexcept>

template <typename T> static T read(const std::string &bytes, uint64_t at, const std::string &path) {
  T value;
  if (at > bytes.size() || bytes.size() - at < sizeof value)
    throw std::runtime_error(path + ": file is truncated");
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

static std::string note_text(const std::string &bytes, const Elf64_Phdr &header,
                             const std::string &path) {
  auto note = read<Elf64_Nhdr>(bytes, header.p_offset, path);
  uint64_t name = header.p_offset + sizeof note, text = name + (note.n_namesz + 3) / 4 * 4;
  if (text + note.n_descsz > bytes.size() || bytes.compare(name, 9, std::string("tnpu-nix\0", 9)))
    return "";
  return bytes.c_str() + text;
}

loaded_elf_t load_elf(const std::string &path, memory_t &memory) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw std::runtime_error("couldn't open " + path);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  if (bytes.compare(0, 4, ELFMAG) != 0)
    throw std::runtime_error(path + ": not an ELF file");
  auto elf = read<Elf64_Ehdr>(bytes, 0, path);
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != EM_RISCV || elf.e_type != ET_EXEC)
    throw std::runtime_error(path + ": not a static RV64 executable");
  loaded_elf_t result;
  result.entry = elf.e_entry;
  for (int i = 0; i < elf.e_phnum; ++i) {
    auto header = read<Elf64_Phdr>(bytes, elf.e_phoff + i * sizeof(Elf64_Phdr), path);
    if (header.p_type == PT_NOTE)
      result.note = note_text(bytes, header, path);
    if (header.p_type != PT_LOAD || header.p_memsz == 0)
      continue;
    if (header.p_offset + header.p_filesz > bytes.size())
      throw std::runtime_error(path + ": file is truncated");
    memory.map(header.p_vaddr, header.p_memsz);
    memory.write(header.p_vaddr, bytes.substr(header.p_offset, header.p_filesz));
    result.end = std::max(result.end, header.p_vaddr + header.p_memsz);
  }
  return result;
}
