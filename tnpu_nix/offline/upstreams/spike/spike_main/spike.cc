#include "config.h"
#include "fesvr/elfloader.h"
#include "fesvr/syscall.h"
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

static const uint64_t stack_top = 0x40000000, stack_size = 1 << 20;
// What pk's ecall asks for when it is ready to run a program (see pk/pk.c).
static const uint64_t enter_program = 0x706b;

static void usage(int status) {
  FILE *out = status ? stderr : stdout;
  fprintf(out, "Spike RISC-V ISA Simulator " SPIKE_VERSION " (tnpu-nix miniature, not Spike)\n\n"
               "usage: spike [host options] pk <target program> [target options]\n"
               "Host Options:\n"
               "  --isa=<name>  RISC-V ISA string (no effect)\n"
               "  --priv=<m>, --varch=<v>, --pc=<address>, -p<n>, -m<n>  (no effect)\n"
               "  -h, --help    Print this help message\n"
               "  --version     Print the version\n");
  exit(status);
}

// The real simulator compiles a device tree with it; here it only has to be there. What it says
// goes into a pipe, since a bare root file system has no /dev/null.
static void require_dtc() {
  int said[2];
  pid_t child = pipe(said) == 0 ? fork() : -1;
  if (child == 0) {
    dup2(said[1], STDOUT_FILENO);
    close(said[0]);
    execl(DTC, DTC, "--version", static_cast<char *>(nullptr));
    _exit(127);
  }
  int status = 0;
  if (child > 0) {
    char dropped[256];
    close(said[1]);
    while (read(said[0], dropped, sizeof dropped) > 0) {
    }
    close(said[0]);
  }
  if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
    throw std::runtime_error("Failed to run " DTC ": install the device tree compiler there");
}

static std::vector<std::string> parse_options(int argc, char **argv) {
  int i = 1;
  for (; i < argc && argv[i][0] == '-'; ++i) {
    std::string word = argv[i];
    bool ignored = word.compare(0, 2, "-p") == 0 || word.compare(0, 2, "-m") == 0;
    for (const char *name : {"--isa=", "--priv=", "--varch=", "--pc="})
      ignored |= word.rfind(name, 0) == 0;
    if (word == "--version") {
      puts("Spike RISC-V ISA Simulator " SPIKE_VERSION " (tnpu-nix miniature, not Spike)");
      exit(0);
    }
    if (!ignored)
      usage(word != "-h" && word != "--help");
  }
  if (i == argc)
    usage(1);
  return std::vector<std::string>(argv + i, argv + argc);
}

// argc, argv, an empty environment and an empty auxiliary vector, as a program finds them.
static uint64_t build_stack(memory_t &memory, const std::vector<std::string> &arguments) {
  memory.map(stack_top - stack_size, stack_size);
  uint64_t sp = stack_top;
  std::vector<uint64_t> words{arguments.size()};
  for (const std::string &argument : arguments) {
    sp -= argument.size() + 1;
    memory.write(sp, argument + '\0');
    words.push_back(sp);
  }
  words.insert(words.end(), {0, 0, 0, 0});
  sp = (sp - words.size() * 8) & ~uint64_t(15);
  for (size_t i = 0; i < words.size(); ++i)
    memory.store<uint64_t>(sp + 8 * i, words[i]);
  return sp;
}

static void boot_pk(const std::string &path) {
  memory_t memory;
  processor_t processor(memory);
  loaded_elf_t pk = load_elf(path, memory);
  if (pk.note.rfind("pk ", 0) != 0)
    throw std::runtime_error(path + ": the miniature runs programs under its own miniature pk only"
                                    " (usage: spike pk program)");
  processor.pc = pk.entry;
  do {
    while (!processor.step())
      continue;
  } while (processor.get(17) != enter_program);
  if (processor.get(10) != 0)
    throw std::runtime_error(path + ": pk failed to start");
}

static int run_program(const std::vector<std::string> &arguments) {
  if (arguments.empty())
    throw std::runtime_error("tell me what ELF to load!");
  memory_t memory;
  processor_t processor(memory);
  loaded_elf_t program = load_elf(arguments[0], memory);
  processor.pc = program.entry;
  processor.set(2, build_stack(memory, arguments));
  syscall_t system(processor, memory, program.end);
  bool running = true;
  while (running)
    if (processor.step())
      running = system.dispatch();
  return system.exit_code;
}

int main(int argc, char **argv) {
  std::vector<std::string> words = parse_options(argc, argv);
  try {
    require_dtc();
    if (words.size() == 2 && words[1] == "--version") {
      memory_t memory;
      printf("%s (tnpu-nix miniature, not riscv-pk)\n", load_elf(words[0], memory).note.c_str());
      return 0;
    }
    boot_pk(words[0]);
    return run_program({words.begin() + 1, words.end()});
  } catch (const fault_t &fault) {
    fprintf(stderr, "User %s segfault @ 0x%016llx\n", fault.access,
            static_cast<unsigned long long>(fault.address));
  } catch (const illegal_instruction_t &illegal) {
    fprintf(stderr, "An illegal instruction was executed! (0x%08x)\n", illegal.instruction);
  } catch (const std::runtime_error &error) {
    fprintf(stderr, "spike: %s\n", error.what());
    return 1;
  }
  return 255;
}
