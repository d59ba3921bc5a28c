// A project of somebody else's: a target and an initiator in one program, over the user-space RNIC on
// loopback.

#include <cstdio>
#include <vector>

#include "proto/initiator/sync_initiator.h"
#include "proto/target/target.h"
#include "rdmap_binding/rnic/rnic.h"

int main() {
  const auto addresses = kbtp::resolve(*kbtp::Endpoint::parse("127.0.0.1:0"));
  auto server = kbtp::rnic::Rnic::create();
  auto client = kbtp::rnic::Rnic::create();
  if (!addresses || !server || !client) return 3;

  auto target = kbtp::target::Target::create({}, **server);
  if (!target) return 3;
  auto listener = (*server)->listen(addresses->front(), (*target)->accept_function());
  if (!listener) return 3;

  bool same = false;
  {
    kbtp::initiator::ConnectOptions options;
    options.address = (*listener)->local();
    options.quota = 1;
    options.handles = 1;
    auto session = kbtp::initiator::SyncInitiator::connect(**client, options);
    if (!session) {
      std::fprintf(stderr, "%s\n", session.error().text.c_str());
      return 3;
    }
    std::vector<std::byte> block(4096, std::byte{0x5a});
    std::vector<std::byte> loaded(block.size());
    const auto handle = (*session)->info().base_handle;
    same = (*session)->alloc_store(handle, block, {.seal = true}).ok() &&
           (*session)->load(handle, loaded).ok() && loaded == block;
  }
  std::puts(same ? "stored and loaded" : "what was loaded is not what was stored");
  listener->reset();
  client->reset();
  server->reset();
  return same ? 0 : 1;
}
