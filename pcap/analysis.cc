#include "pcap/analysis.h"

#include <algorithm>
#include <array>
#include <deque>
#include <fmt/format.h>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "pcap/analysis_memory.h"
#include "pcap/terminate_reading.h"

namespace kbtp::trace {

namespace {

using enum Kind;
using Severity = Finding::Severity;

constexpr std::array kFields{
    FieldInfo{"analysis.request_frame", number, "the frame of the request that this answers"},
    FieldInfo{"analysis.latency_us", fixed, "microseconds since that frame", Base::decimal, 3},
    FieldInfo{"analysis.request_op", text, "the operation that this answers or serves"},
    FieldInfo{"analysis.for_request_id", number, "Request ID of the operation that this serves", Base::hex},
    FieldInfo{"analysis.record_status", text, "the status in a completion record (KBTP 6.5)"},
    FieldInfo{"analysis.name", text, "what is touched: a table entry, a block, a ring slot, Head"},
    FieldInfo{"analysis.ticket", number, "the ticket that an addition on Head took (KBTP 3.3)"},
    FieldInfo{"analysis.handle_frame", number, "the frame in which the handle was last used with success"},
    FieldInfo{"analysis.handle_op", text, "the operation that it was"},
};

consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

constexpr std::size_t kMostOpen = 4096;
constexpr std::size_t kMostHandles = 65536;
constexpr std::size_t kMostHeld = std::size_t{80} << 20;  // octets of memory, of all connections

/// A Read or Atomic Request that is not answered yet.
struct OneSided {
  FrameRef frame;
  bool atomic = false;
  std::uint32_t sink_stag = 0;  ///< or the Request Identifier
  std::uint64_t size = 0;
  bool head = false;    ///< an addition on Head
  std::string purpose;  ///< what was said of it
};

/// A KBTP request that is not answered yet.
struct Request {
  FrameRef frame;
  wire::Opcode op = wire::Opcode::hello;
  std::uint64_t handle = 0;
  std::uint64_t octets = 0;                                         ///< that it asks to store
  std::optional<wire::CompletionDescriptor> record = std::nullopt;  ///< of the initiator's memory (6.5)
};

/// An RDMA Write as far as its segments have come.
struct Write {
  bool open = false;
  std::uint32_t stag = 0;
  std::uint64_t begin = 0, next = 0;  ///< Tagged Offsets
};

struct HandleUse {
  std::uint64_t frame = 0;
  wire::Opcode op = wire::Opcode::load;
};

void find(Annotation& to, Severity severity, FindingWord kind, std::string text) {
  to.findings.push_back({severity, kind.word, std::move(text)});
}
std::string since(std::int64_t ns) { return fmt::format("{:.1f} us", static_cast<double>(ns) / 1000); }

const wire::RequestHead* head_of(const wire::Message& message) {
  return std::visit(
      [](const auto& m) -> const wire::RequestHead* {
        if constexpr (requires { m.head; }) {
          return &m.head;
        } else {
          return nullptr;
        }
      },
      message);
}

/// Where a request asks for a completion record.
std::optional<wire::CompletionDescriptor> record_of(const wire::Message& message) {
  return std::visit(
      [](const auto& m) -> std::optional<wire::CompletionDescriptor> {
        if constexpr (std::is_constructible_v<wire::Request, decltype(m)>) {
          return wire::record_of(m);
        } else {
          return std::nullopt;
        }
      },
      message);
}

/// The Data Descriptor of a request, unless its data is inline.
std::optional<wire::DataDescriptor> descriptor_of(const wire::Message& message) {
  if (const auto* load = std::get_if<wire::Load>(&message)) return load->destination;
  const auto of_store = [](const wire::StoreBody& body) {
    return body.inline_data ? std::nullopt : std::optional(body.source);
  };
  if (const auto* store = std::get_if<wire::Store>(&message)) return of_store(store->body);
  if (const auto* store = std::get_if<wire::AllocStore>(&message)) return of_store(store->body);
  return std::nullopt;
}

}  // namespace

std::span<const FieldInfo> analysis_fields() { return kFields; }

class Analyzer::Connection {
 public:
  explicit Connection(const wire::Assignment& assignment) : assignment_(assignment) {}

  std::optional<Answered> event(const ConnectionInfo& info, const Event& event, Annotation& annotation) {
    text_.clear();
    answered_.reset();
    info_ = &info;
    event_ = &event;
    out_ = &annotation;
    std::visit([this](const auto& what) { on(what); }, event.what);
    annotation.text = text_;
    return answered_;
  }

  /// Octets of memory that this takes, about.
  [[nodiscard]] std::size_t held() const {
    constexpr std::size_t kEmpty = 4096;  // the first blocks of so many deques
    constexpr std::size_t kPurpose = 64;
    constexpr std::size_t kNode = 32;
    return sizeof(Connection) + kEmpty +
           (one_sided_[0].size() + one_sided_[1].size()) * (sizeof(OneSided) + kPurpose) +
           requests_.size() * (sizeof(Request) + 2 * kNode) + handles_.size() * (sizeof(HandleUse) + kNode) +
           (memory_[0].held() + memory_[1].held()) * (sizeof(Buffer) + 4 * kNode);
  }

  std::uint64_t used = 0;   ///< the event that it was told last
  std::size_t charged = 0;  ///< of held(), in Analyzer::held_

 private:
  [[nodiscard]] std::size_t side() const { return static_cast<std::size_t>(event_->from); }
  [[nodiscard]] std::size_t peer() const { return 1 - side(); }
  void say(const std::string& text) { text_ += text_.empty() ? text : ", " + text; }

  void answer(const FrameRef& request, Answered answered, std::string_view what) {
    // A capture may have frames in another order than they went.
    answered.latency_ns = std::max<std::int64_t>(event_->frame.time_ns - request.time_ns, 0);
    out_->fields.push_back(number_field(f("analysis.request_frame"), request.number));
    out_->fields.push_back(fixed_field(f("analysis.latency_us"), answered.latency_ns));
    say(fmt::format("answers {}#{}, {}", what, request.number, since(answered.latency_ns)));
    answered_ = answered;
  }
  void name(std::string text) {
    name_ = std::move(text);
    out_->fields.push_back(text_field(f("analysis.name"), name_));
    say(name_);
  }

  // --- MPA and TCP ---------------------------------------------------------------------------------------

  void on(const Startup& startup) {
    if (startup.frame.reject && startup.frame.kind == mpa::StartupKind::reply)
      find(*out_, Severity::error, "rejected", "the responder rejects the connection (RFC 5044 7.1.1)");
  }
  void on(const BadStartup& bad) {
    find(*out_, Severity::error, "bad-startup",
         bad.error ? "no MPA start-up frame where one is due" : "the start-up frame breaks off");
  }
  void on(const Missing& missing) {
    lost_[side()] = true;
    find(*out_, Severity::warning, "octets-missing",
         fmt::format("the capture lacks {} octets here", missing.length));
  }
  void on(const Note& note) {
    if (note.finding) find(*out_, Severity::warning, *note.finding, note.text);
  }
  void on(const TcpEnd& end) {
    if (end.kind == TcpEnd::Kind::rst) find(*out_, Severity::warning, "reset", "the connection is reset");
    if (side() != initiator_ && !requests_.empty() && !lost_[side()]) {
      find(*out_, Severity::warning, "unanswered",
           fmt::format("{} requests were not answered, the first of them {} in #{}", requests_.size(),
                       wire::to_string(oldest().op), oldest().frame.number));
      requests_.clear();
      order_.clear();
    }
  }

  // --- InfiniBand ----------------------------------------------------------------------------------------

  void on(const IbPacket& ib) {
    const ib::Packet& packet = ib.packet;
    if (ib.error != nullptr) find(*out_, Severity::error, "ib-malformed", ib.error);
    if (ib.icrc == IcrcState::bad)
      return find(*out_, Severity::error, "icrc-bad", "the ICRC is wrong (IBTA Volume 1, 7.8.1)");
    if (packet.bth.opcode.value == ib::kCongestionNotification)
      find(*out_, Severity::note, "congestion", "the receiver was told of congestion by the network");
    if (ib.order == PsnOrder::repeated)
      find(*out_, Severity::warning, "psn-repeated", fmt::format("PSN {} was sent before", packet.bth.psn));
    if (ib.order == PsnOrder::gap)
      find(*out_, Severity::warning, "psn-gap",
           fmt::format("{} packets in front of it were not seen", ib.missing_psns));
    if (packet.reth && ib.order != PsnOrder::repeated && !completes(packet))
      touches(packet.reth->remote_key, packet.reth->virtual_address);
    if (packet.atomic && ib.order != PsnOrder::repeated)
      touches(packet.atomic->remote_key, packet.atomic->virtual_address);
    const auto kind = packet.aeth ? packet.aeth->kind() : ib::Aeth::Kind::ack;
    if (kind != ib::Aeth::Kind::ack) {
      const bool refused = kind == ib::Aeth::Kind::nak && packet.aeth->value() != 0;
      find(*out_, refused ? Severity::error : Severity::warning,
           kind == ib::Aeth::Kind::rnr_nak ? FindingWord("rnr-nak") : FindingWord("nak"),
           fmt::format("{} for PSN {}", describe(*packet.aeth), packet.bth.psn));
    }
    if (ib.answers && ib.answers->complete) answered_by(*ib.answers, kind != ib::Aeth::Kind::ack);
  }

  /// Whether it is the completion record of an open request: an RDMA Write of 24 octets to where that was
  /// asked for (KBTP 6.5). It ends the request, as a COMPLETION does.
  bool completes(const ib::Packet& packet) {
    const auto record = wire::decode_completion_record(packet.payload, assignment_);
    if (!record || side() == initiator_) return false;
    const auto at = requests_.find(record->request_id);
    if (at == requests_.end() ||
        at->second.record !=
            wire::CompletionDescriptor{packet.reth->remote_key, packet.reth->virtual_address})
      return false;
    out_->fields.push_back(text_field(f("analysis.record_status"), wire::to_string(record->status)));
    say(fmt::format("completion record, {}", wire::to_string(record->status)));
    finish(record->request_id, record->status, record->data_length);
    return true;
  }

  void answered_by(const IbAnswer& answer, bool refused) {
    const bool atomic =
        answer.operation == ib::Operation::compare_swap || answer.operation == ib::Operation::fetch_add;
    const bool read = answer.operation == ib::Operation::read_request;
    const std::uint64_t octets = read ? answer.dma_length : sizeof(std::uint64_t);
    this->answer(answer.request,
                 {.kind = read ? Answered::Kind::read : Answered::Kind::atomic, .octets = octets}, "");
    if (answer.requests > 1) say(fmt::format("{} requests at once", answer.requests));
    // Of Sends and Writes it tells that they have arrived, no more; of what was refused not even that.
    if (!(read || atomic) || refused) answered_.reset();
  }

  void on(const CmMessage& message) {
    if (message.repeats)
      find(*out_, Severity::warning, "cm-repeated",
           fmt::format("the {} of #{} is sent again", ib::to_string(message.cm.kind), *message.repeats));
    if (!message.cm.reject_reason) return;
    const std::string_view why = ib::describe_reject(*message.cm.reject_reason);
    find(*out_, Severity::error, "rejected",
         fmt::format("the connection is rejected: {}",
                     why.empty() ? fmt::format("reason {}", *message.cm.reject_reason) : std::string(why)));
  }

  // --- FPDUs ---------------------------------------------------------------------------------------------

  void on(const Fpdu& fpdu) {
    if (fpdu.crc == CrcState::bad) find(*out_, Severity::error, "crc-bad", "the CRC is wrong (RFC 5044 4.4)");
    if (fpdu.error) {
      find(*out_, Severity::error, "fpdu-error",
           fmt::format("{}: a receiver answers {}", fpdu.error->reason, to_string(fpdu.error->code)));
    }
    if (fpdu.extent != Extent::whole || fpdu.crc == CrcState::bad || fpdu.error) return;
    if (const auto* tagged = fpdu.tagged()) return on_tagged(fpdu, *tagged);
    if (const auto* read = std::get_if<rdmap::ReadRequest>(&fpdu.header)) return on_read_request(*read);
    if (const auto* atomic = std::get_if<rdmap::AtomicRequest>(&fpdu.header))
      return on_atomic_request(*atomic);
    if (const auto* response = std::get_if<rdmap::AtomicResponse>(&fpdu.header))
      return on_atomic_response(*response);
    if (fpdu.is(rdmap::Opcode::terminate)) on_terminate(fpdu);
  }

  /// `stag` names memory of the receiver.
  void touches(std::uint32_t stag, std::uint64_t to) {
    KnownMemory& memory = memory_[peer()];
    if (const auto frame = memory.invalidated_in(stag))
      find(*out_, Severity::warning, "stag-after-invalidate",
           fmt::format("STag {:#010x} was invalidated in #{}", stag, *frame));
    if (const Buffer* buffer = memory.find_buffer(stag, to)) {
      out_->fields.push_back(text_field(f("analysis.request_op"), wire::to_string(buffer->op)));
      out_->fields.push_back(number_field(f("analysis.for_request_id"), buffer->request_id));
      return say(
          fmt::format("for {} {:#x} in #{}", wire::to_string(buffer->op), buffer->request_id, buffer->frame));
    }
    if (std::string direct = memory.direct_name(stag, to); !direct.empty()) name(std::move(direct));
  }

  void on_tagged(const Fpdu& fpdu, const ddp::TaggedHeader& header) {
    if (fpdu.is(rdmap::Opcode::read_response)) return on_read_response(fpdu, header);
    // A Write is for what its first octet goes to; that is told with its last segment.
    Write& write = writes_[side()];
    const bool goes_on = write.open && write.stag == header.stag && write.next == header.tagged_offset;
    if (!goes_on) {
      write.stag = header.stag;
      write.begin = header.tagged_offset;
    }
    write.next = header.tagged_offset + fpdu.payload_length;
    write.open = !header.last;
    if (header.last && write.next != write.begin) touches(header.stag, write.begin);
  }

  void on_read_request(const rdmap::ReadRequest& read) {
    touches(read.source_stag, read.source_to);
    open({event_->frame, false, read.sink_stag, read.size, false, text_});
  }
  void on_atomic_request(const rdmap::AtomicRequest& atomic) {
    touches(atomic.remote_stag, atomic.remote_to);
    const bool takes = memory_[peer()].is_head(atomic.remote_stag) &&
                       atomic.operation == rdmap::AtomicOpcode::fetch_add && atomic.add_or_swap_data != 0;
    open({event_->frame, true, atomic.request_identifier, sizeof(std::uint64_t), takes, text_});
  }
  void open(OneSided request) {
    auto& open = one_sided_[side()];
    if (open.size() >= kMostOpen) open.pop_front();
    open.push_back(std::move(request));
  }
  void on_read_response(const Fpdu& fpdu, const ddp::TaggedHeader& header) {
    auto& open = one_sided_[peer()];
    if (lost()) {
      pass_over(open,
                [&](const OneSided& request) { return !request.atomic && request.sink_stag == header.stag; });
    }
    if (open.empty() || open.front().atomic) {
      if (is_odd_without_request())
        find(*out_, Severity::warning, "response-unasked", "no Read Request is open");
      return;
    }
    if (fpdu.payload_length != 0 && open.front().sink_stag != header.stag)
      find(*out_, Severity::warning, "response-elsewhere",
           fmt::format("the Read Request in #{} names sink STag {:#010x}", open.front().frame.number,
                       open.front().sink_stag));
    if (!header.last) return;
    const OneSided request = std::move(open.front());
    open.pop_front();
    if (!request.purpose.empty()) say(request.purpose);
    answer(request.frame, {.kind = Answered::Kind::read, .octets = request.size}, "");
  }

  void on_atomic_response(const rdmap::AtomicResponse& response) {
    auto& open = one_sided_[peer()];
    if (lost()) {
      pass_over(open, [&](const OneSided& request) {
        return request.atomic && request.sink_stag == response.request_identifier;
      });
    }
    if (open.empty() || !open.front().atomic) {
      if (is_odd_without_request())
        find(*out_, Severity::warning, "response-unasked", "no Atomic Request is open");
      return;
    }
    const OneSided request = std::move(open.front());
    open.pop_front();
    if (request.sink_stag != response.request_identifier)
      find(*out_, Severity::warning, "response-elsewhere",
           fmt::format("the Atomic Request in #{} has identifier {:#x}", request.frame.number,
                       request.sink_stag));
    const auto& session = memory_[side()].session();
    if (request.head && session && session->ring_log2 >= wire::CounterFormat::kMinLog2 &&
        session->ring_log2 <= wire::CounterFormat::kMaxLog2) {
      const wire::Counter counter = wire::CounterFormat(session->ring_log2).unpack(response.original_value);
      out_->fields.push_back(number_field(f("analysis.ticket"), counter.ticket));
      say(fmt::format("ticket {} of ring slot {}", counter.ticket, counter.slot_offset / wire::kSlotSize));
    }
    answer(request.frame, {.kind = Answered::Kind::atomic, .octets = request.size}, "");
  }

  void on_terminate(const Fpdu& fpdu) {
    const auto reading = read_terminate(fpdu.payload());
    if (!reading) return;
    find(*out_, Severity::error, "terminate", "the stream ends: " + to_string(reading->control.code));
    if (reading->order == BitOrder::siw)
      find(*out_, Severity::warning, "terminate-bit-order",
           "the control bits are in the order of Linux siw, not of RFC 5040 4.8");
  }

  /// No request that fits what comes now is open. Whether that is odd: not when the request may be in front
  /// of the capture's start, or in or behind octets that it lacks.
  [[nodiscard]] bool is_odd_without_request() {
    lost_[peer()] = lost_[peer()] || info_->lacks_octets[peer()];
    return seen_[0] && seen_[1] && !lost_[peer()];
  }
  [[nodiscard]] bool lost() const { return lost_[0] || lost_[1] || info_->lacks_octets[peer()]; }
  /// Responses come in the order of the requests. Where octets are lacking some of either are not known:
  /// those in front of the one that fits, or all.
  template <class Fits>
  static void pass_over(std::deque<OneSided>& open, Fits fits) {
    open.erase(open.begin(), std::ranges::find_if(open, fits));
  }

  // --- KBTP ----------------------------------------------------------------------------------------------

  void on(const Message& message) {
    seen_[side()] = true;
    if (message.invalidate_stag) memory_[peer()].invalidated(*message.invalidate_stag, event_->frame.number);
    if (!message.kbtp) return;
    if (const auto* hello = std::get_if<wire::Hello>(&*message.kbtp)) {
      initiator_ = side();
      return begin(hello->request_id, {event_->frame, wire::Opcode::hello, 0, 0});
    }
    if (const auto* ack = std::get_if<wire::HelloAck>(&*message.kbtp)) {
      if (ack->status == wire::Status::success) memory_[side()].granted(*ack);
      return finish(ack->request_id, ack->status, 0);
    }
    if (const auto* completion = std::get_if<wire::Completion>(&*message.kbtp))
      return finish(completion->request_id, completion->status, completion->data_length);
    on_request(*message.kbtp, *head_of(*message.kbtp));
  }

  void on_request(const wire::Message& message, const wire::RequestHead& head) {
    const wire::Opcode op = wire::opcode(message);
    Request request{event_->frame, op, head.handle, 0, record_of(message)};
    if (const auto data = descriptor_of(message)) {
      memory_[side()].add_buffer(
          data->stag, {data->tagged_offset, data->length, op, head.request_id, event_->frame.number});
      if (op != wire::Opcode::load) request.octets = data->length;
    }
    if (const auto use = handles_.find(head.handle); use != handles_.end()) {
      out_->fields.push_back(number_field(f("analysis.handle_frame"), use->second.frame));
      out_->fields.push_back(text_field(f("analysis.handle_op"), wire::to_string(use->second.op)));
    }
    begin(head.request_id, request);
  }

  void begin(std::uint64_t id, const Request& request) {
    const auto [at, fresh] = requests_.try_emplace(id, request);
    if (!fresh) {
      return find(*out_, Severity::warning, "request-repeated",
                  fmt::format("Request ID {:#x} is in use since #{}", id, at->second.frame.number));
    }
    order_.push_back(id);
    if (order_.size() <= kMostOpen) return;
    requests_.erase(order_.front());
    order_.pop_front();
  }

  void finish(std::uint64_t id, wire::Status status, std::uint64_t data_length) {
    const auto at = requests_.find(id);
    if (at == requests_.end()) {
      if (is_odd_without_request())
        find(*out_, Severity::warning, "completion-unasked", fmt::format("no request {:#x} is open", id));
      return;
    }
    const Request request = at->second;
    requests_.erase(at);
    order_.erase(std::ranges::find(order_, id));
    memory_[peer()].remove_buffers(id);
    const bool success = status == wire::Status::success;
    const bool moved = success && request.op != wire::Opcode::hello && request.op != wire::Opcode::free;
    out_->fields.push_back(text_field(f("analysis.request_op"), wire::to_string(request.op)));
    answer(
        request.frame,
        {.kind = Answered::Kind::kbtp, .op = request.op, .status = status, .octets = moved ? data_length : 0},
        fmt::format("{} ", wire::to_string(request.op)));
    if (!success) {
      find(*out_, request.op == wire::Opcode::hello ? Severity::error : Severity::warning, "refused",
           fmt::format("{} of handle {} ends with {}", wire::to_string(request.op), request.handle,
                       wire::to_string(status)));
    } else if (request.op != wire::Opcode::hello &&
               (handles_.size() < kMostHandles || handles_.contains(request.handle))) {
      handles_[request.handle] = {event_->frame.number, request.op};
    }
  }
  [[nodiscard]] const Request& oldest() const { return requests_.at(order_.front()); }

  const wire::Assignment& assignment_;
  const ConnectionInfo* info_ = nullptr;
  const Event* event_ = nullptr;
  Annotation* out_ = nullptr;
  std::string text_;
  std::string name_;  ///< that a field points to
  std::optional<Answered> answered_;
  std::size_t initiator_ = 0;
  std::array<bool, 2> seen_{};                     ///< sides that have sent a message
  std::array<bool, 2> lost_{};                     ///< of whose octets the capture lacks some
  std::array<KnownMemory, 2> memory_;              ///< by the Side whose memory it is
  std::array<Write, 2> writes_;                    ///< by the Side that sends
  std::array<std::deque<OneSided>, 2> one_sided_;  ///< by the Side that asked
  std::unordered_map<std::uint64_t, Request> requests_;
  std::deque<std::uint64_t> order_;  ///< of requests_, the oldest first
  std::unordered_map<std::uint64_t, HandleUse> handles_;
};

Analyzer::Analyzer(const wire::Assignment& assignment) : assignment_(assignment) {}
Analyzer::~Analyzer() = default;

void Analyzer::event(const ConnectionInfo& connection, const Event& event, Annotation& annotation) {
  if (last_ == nullptr || last_number_ != connection.number) {
    auto& state = connections_[connection.number];
    if (!state) state = std::make_unique<Connection>(assignment_);
    last_ = state.get();
    last_number_ = connection.number;
  }
  last_->used = ++events_;
  answered_ = last_->event(connection, event, annotation);
  const auto* fpdu = event.as<Fpdu>();
  // Most events are segments with data, of which nothing is kept.
  if (fpdu == nullptr || fpdu->tagged() == nullptr || last_->charged == 0) charge(*last_);
}

void Analyzer::charge(Connection& connection) {
  held_ += connection.held() - connection.charged;
  connection.charged = connection.held();
  if (held_ > kMostHeld) forget_oldest();
}

/// Down to three quarters of what may be held, so that this is seldom needed; the last one stays.
void Analyzer::forget_oldest() {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> oldest;  // used, number
  oldest.reserve(connections_.size());
  for (const auto& [number, connection] : connections_) oldest.emplace_back(connection->used, number);
  std::ranges::sort(oldest);
  for (const auto& [used, number] : oldest) {
    if (held_ <= kMostHeld / 4 * 3 || used == events_) return;
    const auto at = connections_.find(number);
    held_ -= at->second->charged;
    connections_.erase(at);
  }
}

void Analyzer::end(const ConnectionInfo& connection) {
  const auto at = connections_.find(connection.number);
  if (at == connections_.end()) return;
  held_ -= at->second->charged;
  connections_.erase(at);
  last_ = nullptr;
}

}  // namespace kbtp::trace
