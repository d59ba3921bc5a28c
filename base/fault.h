// Deliberate faults for conformance mutants. In the shipped libraries fault() is constexpr false and no fault
// name exists; kbtp-mutant is compiled with KBTP_FAULTS and switches one on by name. A fault is written as
//     if (fault(Fault::load_ignores_seal)) { ...the wrong thing... }
// and named after the rule it breaks in the list below.

#pragma once

#ifdef KBTP_FAULTS
#include <string_view>
#endif

namespace kbtp {

// X(enumerator, rule id) - the rule that the mutant breaks, as the conformance catalogue names it.
#define KBTP_FAULT_LIST(X) X(load_ignores_valid, "KBTP-6.1-01")

enum class Fault {
#define KBTP_FAULT_ENUMERATOR(name, rule) name,
  KBTP_FAULT_LIST(KBTP_FAULT_ENUMERATOR)
#undef KBTP_FAULT_ENUMERATOR
};

#ifdef KBTP_FAULTS
/// True when `which` is the fault that this process was started with.
[[nodiscard]] bool fault(Fault which);
/// Switches the fault of that name on; false when there is none.
[[nodiscard]] bool switch_fault_on(std::string_view name);
/// Calls f(name, rule) for each fault.
template <class F>
void for_each_fault(F&& f) {
#define KBTP_FAULT_VISIT(name, rule) f(std::string_view(#name), std::string_view(rule));
  KBTP_FAULT_LIST(KBTP_FAULT_VISIT)
#undef KBTP_FAULT_VISIT
}
#else
[[nodiscard]] constexpr bool fault(Fault) { return false; }
#endif

}  // namespace kbtp
