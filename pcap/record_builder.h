// Makes the Record of an event: what is true of every event (frame, stream, ends), then the fields of its
// kind, then what an analysis added.

#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "pcap/decoder.h"
#include "pcap/event.h"
#include "pcap/fields.h"
#include "pcap/record.h"
#include "proto/wire/assignment.h"

namespace kbtp::trace {

/// One thread. Holds a bounded number of addresses as text, whatever the number of connections.
class RecordBuilder {
 public:
  explicit RecordBuilder(const wire::Assignment& assignment) : assignment_(assignment) {}

  /// frame.relative counts from here: the time of the capture's first frame.
  void set_start(std::int64_t ns) { start_ns_ = ns; }

  /// Fills `record` anew. It points into the event, the annotation and this builder: valid until the next
  /// call. To be called for every event of a connection, in order, if at all.
  void build(const ConnectionInfo& connection, const Event& event, const Annotation& annotation,
             Record& record);

 private:
  struct Ends {
    std::uint64_t connection = 0;  ///< 0: empty
    std::array<std::string, 2> addresses;
    bool kbtp_seen = false;
  };
  Ends& ends(const ConnectionInfo& connection);

  wire::Assignment assignment_;
  std::int64_t start_ns_ = 0;
  std::array<Ends, 256> ends_;  ///< by the connection's number, the last one that had that place
  TextStore texts_;
};

}  // namespace kbtp::trace
