#include "proto/wire/request.h"

#include <algorithm>

#include "base/fault.h"
#include "proto/wire/fields.h"

namespace kbtp::wire {

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

std::uint16_t flag_if(bool set, Flag flag) { return set ? bit(flag) : std::uint16_t{0}; }

std::uint16_t store_flags(const StoreBody& body) {
  return static_cast<std::uint16_t>(
      flag_if(body.inline_data.has_value(), Flag::inline_data) | flag_if(body.seal, Flag::seal) |
      flag_if(body.record.has_value(), Flag::record) | flag_if(body.invalidate, Flag::invalidate));
}

const StoreBody* store_body(const Request& request) {
  if (const auto* store = std::get_if<Store>(&request)) return &store->body;
  if (const auto* store = std::get_if<AllocStore>(&request)) return &store->body;
  return nullptr;
}

/// Octets before the Completion Descriptor, if any.
std::size_t fixed_size(Opcode opcode, const Assignment& assignment) {
  switch (opcode) {
    case Opcode::load:
    case Opcode::store:
    case Opcode::alloc_store:
      return kHeaderSize + kDataDescriptorSize;
    case Opcode::bind:
      return assignment.bind.length;
    case Opcode::free:
    case Opcode::hello:
    case Opcode::hello_ack:
    case Opcode::completion:
      break;
  }
  return kHeaderSize;
}

bool is_request(Opcode opcode) {
  switch (opcode) {
    case Opcode::load:
    case Opcode::store:
    case Opcode::alloc_store:
    case Opcode::free:
    case Opcode::bind:
      return true;
    case Opcode::hello:
    case Opcode::hello_ack:
    case Opcode::completion:
      return false;
  }
  return false;
}

/// G-15 step 5: assigned, legal for the opcode, and possible together.
std::optional<WireError> check_flags(const Header& header, Opcode opcode, const Assignment& assignment) {
  const std::uint16_t flags = header.flags;
  const unsigned illegal = flags & ~unsigned{assignment.flags_of(opcode)};
  if (illegal != 0 && !fault(Fault::undefined_flags_accepted)) {
    // The octet of the first bit that is not legal.
    const std::size_t octet = illegal > 0xFF ? 2 : 3;
    return WireError{Status::invalid_request, octet, "KBTP-5.1-07", "flag not legal for this opcode", header};
  }
  if (has(flags, Flag::invalidate) && has(flags, Flag::inline_data)) {
    return WireError{Status::invalid_request, 3, "G-11", "INVALIDATE with INLINE: there is no STag", header};
  }
  if (has(flags, Flag::invalidate) && has(flags, Flag::record) &&
      !fault(Fault::record_with_invalidate_accepted)) {
    return WireError{Status::invalid_request, 3, "E-11", "INVALIDATE with RECORD: no message carries it",
                     header};
  }
  return std::nullopt;
}

/// G-15 step 6: exactly as long as its form asks for.
std::optional<WireError> check_length(Octets octets, const Header& header, Opcode opcode,
                                      const Assignment& assignment) {
  std::uint64_t expected = fixed_size(opcode, assignment);
  if (has(header.flags, Flag::record)) expected += kCompletionDescriptorSize;
  if (octets.size() < expected) {
    return WireError{Status::invalid_request, octets.size(), "G-09", "message too short for its form",
                     header};
  }
  if (has(header.flags, Flag::inline_data)) {
    constexpr std::size_t kLengthOctet = kHeaderSize + 12;  // Length of the Data Descriptor
    expected += field<std::uint32_t>(octets, kLengthOctet);
    if (octets.size() != expected) {
      return WireError{Status::invalid_request, kLengthOctet, "G-09",
                       "Length differs from the inline data that follows", header};
    }
  }
  if (octets.size() != expected && !fault(Fault::message_length_not_checked)) {
    return WireError{Status::invalid_request, static_cast<std::size_t>(expected), "G-00",
                     "octets behind the message", header};
  }
  return std::nullopt;
}

}  // namespace

bool operator==(const StoreBody& a, const StoreBody& b) {
  return a.source == b.source && a.record == b.record && a.seal == b.seal && a.invalidate == b.invalidate &&
         a.inline_data.has_value() == b.inline_data.has_value() &&
         (!a.inline_data || std::ranges::equal(*a.inline_data, *b.inline_data));
}

const RequestHead& head(const Request& request) {
  return std::visit([](const auto& r) -> const RequestHead& { return r.head; }, request);
}

Opcode opcode(const Request& request) {
  return std::visit(
      Overloaded{[](const Load&) { return Opcode::load; }, [](const Store&) { return Opcode::store; },
                 [](const AllocStore&) { return Opcode::alloc_store; },
                 [](const Free&) { return Opcode::free; }, [](const Bind&) { return Opcode::bind; }},
      request);
}

std::uint16_t flags(const Request& request) {
  return std::visit(
      Overloaded{[](const Load& load) {
                   return static_cast<std::uint16_t>(flag_if(load.record.has_value(), Flag::record) |
                                                     flag_if(load.invalidate, Flag::invalidate) |
                                                     flag_if(load.allow_unsealed, Flag::allow_unsealed));
                 },
                 [](const Store& store) { return store_flags(store.body); },
                 [](const AllocStore& store) { return store_flags(store.body); },
                 [](const Free& free) { return flag_if(free.record.has_value(), Flag::record); },
                 [](const Bind& bind) {
                   return static_cast<std::uint16_t>(flag_if(bind.seal, Flag::seal) |
                                                     flag_if(bind.record.has_value(), Flag::record));
                 }},
      request);
}

std::optional<std::uint32_t> stag_to_invalidate(const Request& request) {
  if (const auto* load = std::get_if<Load>(&request)) {
    if (load->invalidate) return load->destination.stag;
  } else if (const auto* body = store_body(request)) {
    if (body->invalidate) return body->source.stag;
  }
  return std::nullopt;
}

const std::optional<CompletionDescriptor>& record_of(const Request& request) {
  return std::visit(
      [](const auto& r) -> const std::optional<CompletionDescriptor>& {
        if constexpr (requires { r.body; }) {
          return r.body.record;
        } else {
          return r.record;
        }
      },
      request);
}

void ask_for_record(Request& request, const CompletionDescriptor& slot) {
  std::visit(
      [&slot](auto& r) {
        if constexpr (requires { r.body; }) {
          r.body.record = slot;
        } else {
          r.record = slot;
        }
      },
      request);
}

std::vector<std::byte> encode(const Request& request, const Assignment& assignment) {
  const Opcode code = opcode(request);
  const RequestHead& h = head(request);
  const auto& record = record_of(request);
  const StoreBody* body = store_body(request);
  const Octets data = body != nullptr && body->inline_data ? *body->inline_data : Octets{};

  const std::size_t fixed = fixed_size(code, assignment);
  std::vector<std::byte> message(fixed + (record ? kCompletionDescriptorSize : 0) + data.size());
  ByteWriter writer(message);
  write(writer, Header{.opcode = assignment.code(code),
                       .flags = flags(request),
                       .request_id = h.request_id,
                       .handle = h.handle,
                       .generation = h.generation,
                       .status = h.status});
  if (const auto* load = std::get_if<Load>(&request)) {
    write(writer, load->destination);
  } else if (body != nullptr) {
    DataDescriptor source = body->source;
    if (body->inline_data) source.length = static_cast<std::uint32_t>(data.size());
    write(writer, source);
  } else if (const auto* bind = std::get_if<Bind>(&request)) {
    const BindLayout& at = assignment.bind;
    set_field(message, at.ticket, bind->ticket);
    set_field(message, at.data_length, bind->data_length);
    set_field(message, at.block_offset, bind->block_offset);
  }
  ByteWriter tail(MutableOctets(message).subspan(fixed));
  if (record) write(tail, *record);
  tail.bytes(data);
  return message;
}

void set_record(MutableOctets message, Opcode opcode, const CompletionDescriptor& record,
                const Assignment& assignment) {
  ByteWriter writer(message.subspan(fixed_size(opcode, assignment), kCompletionDescriptorSize));
  write(writer, record);
}

Decoded<Request> decode_request(Octets octets, const Features& granted, const Assignment& assignment) {
  // G-15 (1)
  const auto header = read_header(octets);
  if (!header) {
    return unexpected(WireError{{}, octets.size(), "G-38", "shorter than a header", {}});
  }
  // (2) before anything that another version might define otherwise
  if (header->version != kVersion && !fault(Fault::version_not_checked)) {
    return unexpected(WireError{Status::unsupported_version, 0, "KBTP-5.1-01", "version is not 1", header});
  }
  // (3)
  const auto code = assignment.opcode(header->opcode);
  if (!code) {
    return unexpected(WireError{Status::unsupported_opcode, 1, "KBTP-5.1-02", "opcode not assigned", header});
  }
  if (!is_request(*code)) {
    return unexpected(WireError{{}, 1, "P-04", "not a request", header});
  }
  // (4)
  if (*code == Opcode::bind && !granted.direct_alloc) {
    return unexpected(WireError{Status::access_denied, 1, "P-01", "BIND without DIRECT_ALLOC", header});
  }
  // (5)
  if (auto error = check_flags(*header, *code, assignment)) return unexpected(*std::move(error));
  // (6)
  if (auto error = check_length(octets, *header, *code, assignment)) return unexpected(*std::move(error));

  const RequestHead h{header->request_id, header->handle, header->generation, header->status};
  ByteReader reader(octets.subspan(kHeaderSize));
  DataDescriptor data;
  Bind bind;
  if (*code == Opcode::bind) {
    const BindLayout& at = assignment.bind;
    bind.head = h;
    bind.ticket = field<std::uint32_t>(octets, at.ticket);
    bind.data_length = field<std::uint32_t>(octets, at.data_length);
    bind.block_offset = field<std::uint64_t>(octets, at.block_offset);
    bind.seal = has(header->flags, Flag::seal);
    reader.skip(at.length - kHeaderSize);
  } else if (*code != Opcode::free) {
    data = read_data_descriptor(reader);
  }
  std::optional<CompletionDescriptor> record;
  if (has(header->flags, Flag::record)) record = read_completion_descriptor(reader);

  const auto store = [&] {
    StoreBody body{.source = data,
                   .record = record,
                   .inline_data = {},
                   .seal = has(header->flags, Flag::seal),
                   .invalidate = has(header->flags, Flag::invalidate)};
    if (has(header->flags, Flag::inline_data)) body.inline_data = reader.rest();
    return body;
  };
  switch (*code) {
    case Opcode::load:
      return Load{h, data, record, has(header->flags, Flag::invalidate),
                  has(header->flags, Flag::allow_unsealed)};
    case Opcode::store:
      return Store{h, store()};
    case Opcode::alloc_store:
      return AllocStore{h, store()};
    case Opcode::free:
      return Free{h, record};
    case Opcode::bind:
      bind.record = record;
      return bind;
    case Opcode::hello:
    case Opcode::hello_ack:
    case Opcode::completion:
      break;
  }
  return unexpected(WireError{{}, 1, "P-04", "not a request", header});
}

}  // namespace kbtp::wire
