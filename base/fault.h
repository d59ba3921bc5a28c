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
// clang-format off
#define KBTP_FAULT_LIST(X) \
  X(load_ignores_valid, "KBTP-6.1-01") \
  X(load_ignores_seal, "KBTP-6.1-02") \
  X(load_writes_whole_block, "KBTP-6.1-03") \
  X(load_truncates, "KBTP-6.1-04") \
  X(load_completion_without_entry, "KBTP-6.1-05") \
  X(load_completes_before_write, "KBTP-6.1-06") \
  X(store_binds_unbound_handle, "KBTP-6.2-01") \
  X(store_ignores_seal, "KBTP-6.2-02") \
  X(store_ignores_owner, "KBTP-6.2-03") \
  X(store_keeps_longer_length, "KBTP-6.2-05") \
  X(alloc_store_rebinds, "KBTP-6.3-02") \
  X(alloc_store_keeps_generation, "KBTP-6.3-05") \
  X(free_ignores_valid, "KBTP-6.4-01") \
  X(free_keeps_generation, "KBTP-6.4-02") \
  X(free_without_scrub, "KBTP-6.4-06") \
  X(completion_truncates_request_id, "KBTP-5.1-03") \
  X(generation_ignored, "KBTP-5.1-04") \
  X(seal_ignored, "KBTP-5.1-09") \
  X(invalidate_ignored, "KBTP-5.1-11") \
  X(generation_may_be_zero, "KBTP-3.2-05") \
  X(no_space_ignored, "KBTP-3.4-14") \
  X(free_keeps_usage, "KBTP-3.4-05") \
  X(record_completion_offered, "KBTP-6.5-06")
// clang-format on

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
