#include "llvm/TableGen/Records.h"

int main(int argc, char **argv) { return llvm::tblgenMain(argc, argv, "mlir-tblgen"); }
