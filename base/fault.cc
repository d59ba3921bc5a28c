#include "base/fault.h"

#ifdef KBTP_FAULTS

#include <optional>

namespace kbtp {

namespace {
std::optional<Fault> current;  // set once, before any thread starts
}

bool fault(Fault which) { return current == which; }

bool switch_fault_on(std::string_view name) {
#define KBTP_FAULT_MATCH(enumerator, rule) \
  if (name == #enumerator) current = Fault::enumerator;
  KBTP_FAULT_LIST(KBTP_FAULT_MATCH)
  KBTP_RECORD_FAULT_LIST(KBTP_FAULT_MATCH)
  KBTP_UNREPAIRED_LIST(KBTP_FAULT_MATCH)
#undef KBTP_FAULT_MATCH
  return current.has_value();
}

void switch_faults_off() { current.reset(); }

}  // namespace kbtp

#endif
