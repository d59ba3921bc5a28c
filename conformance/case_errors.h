// What the cases of DDP and RDMAP share: an open session, a bad segment, a good request behind it.

#pragma once

#include <string>
#include <vector>

#include "conformance/case.h"

namespace kbtp::conformance {

/// Sends the bad segment and behind it a FREE that would be answered, waits for the end of the stream, and
/// expects: a Terminate of `due` under `rule` (one of `without` from who lacks this); under RFC5040-5.4-04
/// silence behind it; under `rule_of_what_follows` no answer to the FREE.
void provoke(Scene& scene, Session& session, std::string rule, Octets bad, const std::vector<Triple>& due,
             const std::vector<Triple>& tolerated = {}, std::string rule_of_what_follows = "RFC5040-7-01",
             const std::vector<Triple>& without = {});

/// The first 14 or 18 octets of a ULPDU.
[[nodiscard]] std::vector<std::byte> header_of(Octets ulpdu);

/// An open session with one more request in it: the stream is in full operation.
Session& working_session(Scene& scene);

/// A FREE of an unbound handle: harmless, and answered when it is delivered.
struct Bait {
  RequestId id = 0;
  std::vector<std::byte> octets;
};
[[nodiscard]] Bait bait(Session& session);

}  // namespace kbtp::conformance
