// What a run of `kbtp` ends with (docs/man/kbtp.1, EXIT STATUS). Scripts rely on the numbers.

#pragma once

namespace kbtp::tools {

enum ExitStatus : int {
  kExitOk = 0,           ///< all as expected
  kExitFindings = 1,     ///< a rule broken, or an operation's status other than SUCCESS
  kExitUsage = 2,        ///< the command line or the configuration file is wrong
  kExitUnreachable = 3,  ///< could not reach, open or set up
  kExitInternal = 4,     ///< a defect of ours
};

}  // namespace kbtp::tools
