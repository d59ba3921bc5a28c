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
  X(completion_truncates_request_id, "KBTP-5.1-03") \
  X(generation_ignored, "KBTP-5.1-04") \
  X(seal_ignored, "KBTP-5.1-09") \
  X(invalidate_ignored, "KBTP-5.1-11") \
  X(generation_may_be_zero, "KBTP-3.2-05") \
  X(no_space_ignored, "KBTP-3.4-14") \
  X(free_keeps_usage, "KBTP-3.4-05") \
  X(record_completion_offered, "KBTP-6.5-06") \
  X(allow_unsealed_refused, "KBTP-5.1-12") \
  X(record_written, "KBTP-6.5-05") \
  X(invisible_handle_told, "G-25") \
  X(foreign_domain_visible, "G-25") \
  X(alloc_store_ignores_owner, "KBTP-6.3-01") \
  X(store_reads_beside_descriptor, "KBTP-5.2-03") \
  X(store_inline_corrupts, "KBTP-6.2-04") \
  X(store_completes_before_read, "KBTP-6.2-06") \
  X(completion_without_block, "KBTP-6.3-06") \
  X(completion_echoes_generation, "KBTP-5.1-05") \
  X(refusal_completes_twice, "KBTP-6.5-01") \
  X(version_not_checked, "KBTP-5.1-01") \
  X(unknown_opcode_ignored, "KBTP-5.1-02") \
  X(undefined_flags_accepted, "KBTP-5.1-07") \
  X(message_length_not_checked, "G-09") \
  X(stray_message_ignored, "G-38") \
  X(hello_order_ignored, "G-05") \
  X(identity_forgotten, "G-24") \
  X(startup_key_not_checked, "RFC5044-7.1.1-02") \
  X(private_data_length_not_checked, "RFC5044-7.1.1-15") \
  X(truncated_request_kept, "RFC5044-7.1.2-03") \
  X(private_data_of_256_at_most, "RFC5044-7.1.2-17") \
  X(request_reject_bit_checked, "RFC5044-7.1.1-10") \
  X(startup_reserved_bits_checked, "RFC5044-7.1.1-11") \
  X(revision_not_checked, "RFC5044-7.1.1-13") \
  X(revision_1_refused, "RFC6581-6-03") \
  X(enhanced_request_answered_plain, "RFC6581-10-01") \
  X(enhanced_length_not_checked, "RFC6581-6-04") \
  X(initiator_ird_ignored, "RFC6581-9.1-03") \
  X(crc_not_checked, "RFC5044-4.4-11") \
  X(delivers_after_crc_error, "RFC5044-8-06") \
  X(terminate_before_first_fpdu, "RFC5044-7.1.2-11") \
  X(pad_octets_checked, "RFC5044-4.1-03") \
  X(fpdus_must_be_aligned, "RFC5044-5.1-03") \
  X(unknown_stag_ignored, "RFC5041-7.1-06") \
  X(queue_number_not_checked, "RFC5041-7.1-01") \
  X(msn_gap_accepted, "RFC5041-7.1-05") \
  X(msn_repeat_accepted, "RFC5041-4.3-05") \
  X(message_offset_not_checked, "RFC5041-7.1-03") \
  X(too_long_told_as_no_buffer, "RFC5041-7.1-04") \
  X(ddp_version_not_checked, "RFC5041-4.1-06") \
  X(bounds_told_as_bad_stag, "RFC5041-7.1-09") \
  X(wrap_told_as_bad_stag, "RFC5041-7.1-10") \
  X(empty_write_checked, "RFC5041-5.2-09") \
  X(ddp_reserved_bits_checked, "RFC5041-4.1-05") \
  X(read_sink_open_to_writes, "G-52") \
  X(rdmap_version_not_checked, "RFC5040-7.2-03") \
  X(unknown_opcode_told_as_version, "RFC5040-7.2-02") \
  X(read_stag_told_as_rights, "RFC5040-7.2-06") \
  X(read_terminate_without_request, "RFC5040-7.1-04") \
  X(terminate_without_header, "RFC5040-7.1-03") \
  X(terminate_reserved_bits_set, "RFC5040-4.8-04") \
  X(terminates_twice, "RFC5040-5.4-04") \
  X(first_error_passed_over, "RFC5040-7.1-05") \
  X(erroneous_stream_goes_on, "RFC5040-7-01") \
  X(empty_read_checked, "RFC5040-5.2.1-09") \
  X(atomic_stag_told_as_rights, "RFC7306-8.2-03") \
  X(invalidated_stag_not_checked, "RFC5040-7.2-04") \
  X(terminate_ignored, "RFC5040-5.4-03") \
  X(rdmap_reserved_bits_checked, "RFC5040-4.1-06") \
  X(markers_refused, "RFC5044-4.3-01") \
  X(startup_reserved_bits_echoed, "RFC6581-6-05") \
  X(no_negotiation_ignored, "RFC6581-9.1-10") \
  X(peer_to_peer_answered_plain, "RFC6581-9.2-04") \
  X(octets_after_first_fpdu_stall, "RFC5044-7.1.5-02") \
  X(places_before_crc_check, "RFC5044-3-06") \
  X(terminate_bits_swapped, "RFC5040-4.8-01") \
  X(read_right_not_checked, "RFC5040-7.2-11") \
  X(read_request_on_any_queue, "RFC5040-5.2.1-03") \
  X(identity_not_proven, "G-51")
// clang-format on

// X(enumerator, error) - an error of the draft left un-repaired (docs/draft-notes.md). No conformance case
// has to find these: they need a rare order of events, which the simulation finds (docs/simulation.md).
// clang-format off
#define KBTP_UNREPAIRED_LIST(X) \
  X(direct_load_compares_generation_only, "E-2") \
  X(consumed_slot_is_free, "E-3") \
  X(load_does_not_pin, "E-5") \
  X(free_waits_for_its_slot, "E-6") \
  X(bind_ignores_sequence, "E-9") \
  X(bind_ignores_owner, "E-9") \
  X(bind_ignores_valid, "E-9") \
  X(bind_ignores_length, "E-9")
// clang-format on

// X(enumerator, rule id) - wrong completion records (6.5, 9.2). There are none over RDMAP, so that these meet
// their cases over RoCE (tests/mutants/over_rxe.py).
// clang-format off
#define KBTP_RECORD_FAULT_LIST(X) \
  X(record_before_data, "KBTP-6.5-02") \
  X(record_without_immediate, "KBTP-9.2-03") \
  X(record_and_message, "KBTP-6.5-03") \
  X(record_for_loads_only, "KBTP-6.5-03") \
  X(record_for_success_only, "KBTP-6.5-03") \
  X(record_beside_descriptor, "KBTP-6.5-03") \
  X(record_truncates_request_id, "KBTP-6.5-04") \
  X(record_without_block, "KBTP-6.5-04") \
  X(record_unasked, "KBTP-6.5-01") \
  X(record_with_invalidate_accepted, "G-11")
// clang-format on

enum class Fault {
#define KBTP_FAULT_ENUMERATOR(name, rule) name,
  KBTP_FAULT_LIST(KBTP_FAULT_ENUMERATOR)
  KBTP_RECORD_FAULT_LIST(KBTP_FAULT_ENUMERATOR) KBTP_UNREPAIRED_LIST(KBTP_FAULT_ENUMERATOR)
#undef KBTP_FAULT_ENUMERATOR
};

#ifdef KBTP_FAULTS
/// True when `which` is the fault that this process was started with.
[[nodiscard]] bool fault(Fault which);
/// Switches the fault of that name, of any list, on; false when there is none.
[[nodiscard]] bool switch_fault_on(std::string_view name);
void switch_faults_off();
/// Calls f(name, rule) for each fault of the first list.
template <class F>
void for_each_fault(F&& f) {
#define KBTP_FAULT_VISIT(name, rule) f(std::string_view(#name), std::string_view(rule));
  KBTP_FAULT_LIST(KBTP_FAULT_VISIT)
#undef KBTP_FAULT_VISIT
}
/// Calls f(name, rule) for each wrong completion record.
template <class F>
void for_each_record_fault(F&& f) {
#define KBTP_FAULT_VISIT(name, rule) f(std::string_view(#name), std::string_view(rule));
  KBTP_RECORD_FAULT_LIST(KBTP_FAULT_VISIT)
#undef KBTP_FAULT_VISIT
}
/// Calls f(name, error) for each error of the draft that can be left un-repaired.
template <class F>
void for_each_unrepaired(F&& f) {
#define KBTP_FAULT_VISIT(name, error) f(std::string_view(#name), std::string_view(error));
  KBTP_UNREPAIRED_LIST(KBTP_FAULT_VISIT)
#undef KBTP_FAULT_VISIT
}
#else
[[nodiscard]] constexpr bool fault(Fault) { return false; }
#endif

}  // namespace kbtp
