#include "conformance/case.h"

#include <algorithm>
#include <fnmatch.h>
#include <string>

namespace kbtp::conformance {

std::string_view to_string(Capability capability) {
  switch (capability) {
    case Capability::none:
      return "-";
    case Capability::inline_data:
      return "INLINE";
    case Capability::identities:
      return "named initiators";
    case Capability::foreign_domain:
      return "second trust domain";
    case Capability::untrusted:
      return "untrusted identity";
    case Capability::records:
      return "completion records";
  }
  return "";
}

std::string needs_text(const Case& one) {
  std::string text = one.player == Player::raw_peer ? "raw iWARP peer" : "";
  if (one.needs == Capability::none) return text.empty() ? "-" : text;
  if (!text.empty()) text += ", ";
  return text + std::string(to_string(one.needs));
}

std::span<const Case> cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out;
    for (auto&& group :
         {groups::load(), groups::store(), groups::allocation(), groups::record(), groups::message()})
      out.insert(out.end(), group.begin(), group.end());
    const auto kbtp = static_cast<std::ptrdiff_t>(out.size());
    for (auto&& group : {groups::mpa(), groups::mpa_stream(), groups::ddp(), groups::rdmap()})
      out.insert(out.end(), group.begin(), group.end());
    for (auto one = out.begin() + kbtp; one != out.end(); ++one) one->player = Player::raw_peer;
    return out;
  }();
  return all;
}

const Case* find_case(std::string_view name) {
  const auto found = std::ranges::find(cases(), name, &Case::name);
  return found == cases().end() ? nullptr : &*found;
}

bool matches(const Case& one, std::string_view pattern) {
  const std::string glob(pattern);
  const auto fits = [&](std::string_view text) {
    return fnmatch(glob.c_str(), std::string(text).c_str(), FNM_CASEFOLD) == 0;
  };
  return fits(one.name) || std::ranges::any_of(one.rules, fits);
}

wire::Completion bind_block(Scene& scene, Session& session, std::uint64_t handle,
                            const std::vector<std::byte>& data, bool seal) {
  if (scene.stopped()) return {};
  if (data.size() <= session.ack().max_inline)
    return scene.need_success(session, session.alloc_store(handle, Octets(data), {.seal = seal}));
  ExposedBuffer& source = session.peer().expose(data.size());
  std::ranges::copy(data, source.octets().begin());
  return scene.need_success(session, session.alloc_store(handle, source, {.seal = seal}));
}

RequestId expect_content(Scene& scene, Session& session, std::string rule, std::uint64_t handle,
                         const std::vector<std::byte>& data) {
  if (scene.stopped()) return 0;
  ExposedBuffer& sink = session.peer().expose(data.size() + 512);
  const RequestId id = session.load(handle, sink, sink.size(), {.allow_unsealed = true});
  session.await(id);
  scene.expect(completes(rule, session.index(), id, wire::Status::success));
  scene.expect(places(std::move(rule), session.index(), sink.stag, sink.tagged_offset, data));
  return id;
}

}  // namespace kbtp::conformance
