// kbtp-sim: runs seeds, or replays one. Not shipped. kbtp-sim-mutant, the same over libraries with faults,
// can switch one on.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <string>

#include "base/fault.h"
#include "tests/sim/simulation.h"

int main(int argc, char** argv) {
  CLI::App app("Simulates a target and its initiators in virtual time.");
  std::uint64_t seed = 1;
  std::uint64_t count = 1;
  bool print = false;
  app.add_option("--seed", seed, "the first seed");
  app.add_option("--count", count, "how many seeds, one after the other");
  app.add_flag("--print", print, "a line for every event");
#ifdef KBTP_FAULTS
  std::string fault;
  app.add_option("--fault", fault, "a fault of base/fault.h");
#endif
  CLI11_PARSE(app, argc, argv);

#ifdef KBTP_FAULTS
  if (!fault.empty() && !kbtp::switch_fault_on(fault)) {
    std::cerr << "there is no fault '" << fault << "'\n";
    return 2;
  }
#endif

  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const kbtp::sim::Report report = kbtp::sim::simulate(seed + i, print);
    if (!report.ok() || count == 1) std::cout << to_string(report);
    failed += report.ok() ? 0 : 1;
  }
  if (count > 1) std::cout << count - failed << " of " << count << " seeds are good\n";
  return failed == 0 ? 0 : 1;
}
