// Evidence made by hand for the tests of judges: what each side could have sent, without a wire.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "conformance/evidence.h"
#include "conformance/judge.h"
#include "conformance/raw_peer.h"
#include "proto/wire/completion.h"
#include "proto/wire/request.h"
#include "rdmap_binding/rdmap/terminate.h"

namespace kbtp::conformance {

/// Grows event by event; frames are numbered from 1.
class Synthetic {
 public:
  Synthetic& fpdu(Side from, std::vector<std::byte> octets) {
    return add(from, Event::Kind::fpdu, std::move(octets));
  }
  Synthetic& add(Side from, Event::Kind kind, std::vector<std::byte> octets = {}) {
    Event event{.kind = kind, .from = from, .connection = connection_, .frame = events_.size() + 1};
    event.octets = std::move(octets);
    events_.push_back(std::move(event));
    return *this;
  }

  /// What is added from here on is on another connection.
  Synthetic& next_connection() {
    ++connection_;
    return *this;
  }

  Synthetic& send(Side from, Octets payload, std::optional<std::uint32_t> invalidate = std::nullopt) {
    const auto opcode = invalidate ? rdmap::Opcode::send_invalidate : rdmap::Opcode::send;
    return fpdu(from, ulpdu(rdmap::make_untagged(opcode, 1, 0, true, invalidate.value_or(0)), payload));
  }
  Synthetic& request(std::uint64_t id) {
    wire::Free free;
    free.head.request_id = id;
    return send(Side::suite, wire::encode(free));
  }
  struct Fields {
    std::uint16_t generation = 1;
    std::uint32_t data_length = 0;
    std::uint64_t block_offset = 0x1000;
    std::optional<std::uint32_t> invalidate = {};
  };
  Synthetic& completion(std::uint64_t id, wire::Status status, Fields fields) {
    wire::Completion completion;
    completion.request_id = id;
    completion.status = status;
    completion.generation = fields.generation;
    completion.data_length = fields.data_length;
    completion.block_offset = fields.block_offset;
    return send(Side::target, wire::encode(completion), fields.invalidate);
  }
  Synthetic& completion(std::uint64_t id, wire::Status status = wire::Status::success) {
    return completion(id, status, Fields{});
  }

  Synthetic& tagged(Side from, rdmap::Opcode opcode, std::uint32_t stag, std::uint64_t offset,
                    Octets payload) {
    return fpdu(from, tagged_ulpdu(opcode, stag, offset, payload));
  }
  Synthetic& read_request(const rdmap::ReadRequest& request) {
    return fpdu(Side::target,
                ulpdu(rdmap::make_untagged(rdmap::Opcode::read_request, 1), rdmap::encode(request)));
  }
  Synthetic& terminate(TerminateCode code, Octets offender = {}, std::uint8_t reserved = 0) {
    auto header =
        to_vector(rdmap::make_terminate(code, rdmap::make_offender(offender, offender.size())).octets());
    header[3] |= std::byte{reserved};
    return fpdu(Side::target, ulpdu(rdmap::make_untagged(rdmap::Opcode::terminate, 1), header));
  }
  Synthetic& fin(Side from) { return add(from, Event::Kind::fin); }

  [[nodiscard]] Finding judged_by(const Expectation& expectation) const {
    return expectation.judge(Evidence(events_));
  }
  [[nodiscard]] Grade grade(const Expectation& expectation) const { return judged_by(expectation).grade; }

 private:
  std::vector<Event> events_;
  ConnectionIndex connection_ = 0;
};

}  // namespace kbtp::conformance
