#include "conformance/case_errors.h"

#include "base/random.h"
#include "conformance/evidence.h"

namespace kbtp::conformance {

std::vector<std::byte> header_of(Octets ulpdu) {
  const auto segment = read_segment(ulpdu);
  return segment ? to_vector(segment->header) : std::vector<std::byte>{};
}

Session& working_session(Scene& scene) {
  Session& session = scene.session();
  if (scene.stopped()) return session;
  const RequestId id = session.free(session.handle(0));
  scene.need(session.await(id).has_value(), "a FREE on the way to the point of the case was not answered");
  return session;
}

Bait bait(Session& session) {
  wire::Free free;
  free.head = {.request_id = random_u64(), .handle = session.handle(1)};
  return {free.head.request_id, session.encode(free)};
}

void provoke(Scene& scene, Session& session, std::string rule, Octets bad, const std::vector<Triple>& due,
             const std::vector<Triple>& tolerated, std::string rule_of_what_follows,
             const std::vector<Triple>& without) {
  if (scene.stopped()) return;
  RawPeer& peer = session.raw();
  peer.send_fpdu(bad);
  const RequestId behind = session.free(session.handle(1));
  peer.wait_for_end();
  const ConnectionIndex c = session.index();
  scene.expect(terminates(std::move(rule), c, due, tolerated, without));
  scene.expect(falls_silent("RFC5040-5.4-04", c));
  scene.expect(stays_unanswered(std::move(rule_of_what_follows), c, behind));
}

}  // namespace kbtp::conformance
