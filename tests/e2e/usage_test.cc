// Wrong command lines, help, and targets that cannot be reached: exit statuses and wording.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;

std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> split;
  std::size_t at = 0;
  while (at < line.size()) {
    const auto end = std::min(line.find(' ', at), line.size());
    split.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return split;
}

TEST(Usage, AWrongCommandLineEndsWith2AndOneSentence) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "kbtp: a subcommand is missing"},
      {"devices siw0", "kbtp devices: "},
      {"target --listen 127.0.0.1:0 --transport rocket", "kbtp target: --transport: "},
      {"target --listen 127.0.0.1:0 --device siw0", "kbtp target: --device is for --transport verbs"},
      {"target --listen 127.0.0.1:0 --transport verbs --crc off", "the device's own business"},
      {"replay trace.jsonl --transport verbs --peers 2", "--peers is for --transport rdmap alone"},
      {"bench soak --transport verbs", "it is for --transport rdmap alone"},
      {"ipsec profile", "kbtp: 'ipsec' is no subcommand"},
      {"--colour", "kbtp: there is no option '--colour'"},
      {"bench", "kbtp bench: a subcommand is missing"},
      {"bench store", "kbtp bench: 'store' is no subcommand; there is load"},
      {"bench direct-store", "kbtp bench: 'direct-store' is no subcommand"},
      {"bench direct-load --target 127.0.0.1:1", "kbtp bench direct-load: --target needs --identity"},
      {"bench direct-alloc --target 127.0.0.1:1", "kbtp bench direct-alloc: --target needs --identity"},
      {"bench direct-load --identity 123e4567-e89b-12d3-a456-426614174000", "--identity requires --target"},
      {"bench direct-load --target 127.0.0.1:1 --identity me", "--identity: 'me' is no UUID"},
      {"bench direct-alloc --target 127.0.0.1:1 --identity 123e4567-e89b-12d3-a456-426614174000 "
       "--connections 2",
       "with --target there is one connection: an identity has one session"},
      {"bench load --identity 123e4567-e89b-12d3-a456-426614174000", "there is no option '--identity'"},
      {"bench load --size 0", "kbtp bench load: --size: 0 is not between"},
      {"bench load --wait maybe", "kbtp bench load: --wait: 'maybe' is neither spin nor block"},
      {"bench load --ops 5 --seconds 1", "kbtp bench load: --seconds excludes --ops"},
      {"bench load --seconds 1e300", "kbtp bench load: --seconds: a run may last a day at most"},
      {"block", "kbtp block: a subcommand is missing"},
      {"block load --handle 1", "kbtp block load: --target is required"},
      {"block load --target 127.0.0.1:1", "kbtp block load: --handle is required"},
      {"block load --target 127.0.0.1 --handle 1", "kbtp block load: --target: '127.0.0.1' is no HOST:PORT"},
      {"block load --target ::1:7420 --handle 1", "an IPv6 address stands in brackets"},
      {"block load --target 127.0.0.1:1 --handle -1", "kbtp block load: --handle: '-1' is no whole number"},
      {"block load --target 127.0.0.1:1 --handle 1 --identity me", "--identity: 'me' is no UUID"},
      {"block load --target 127.0.0.1:1 --handle 1 --generation 65536", "is not between 0 and 65535"},
      {"block load --direct --target 127.0.0.1:1 --handle 1", "kbtp block load: --direct needs --identity"},
      {"block alloc-store --direct --target 127.0.0.1:1 --handle 1",
       "kbtp block alloc-store: --direct needs --identity"},
      {"block load --direct --allow-unsealed --target 127.0.0.1:1 --handle 1",
       "--allow-unsealed excludes --direct"},
      {"block alloc-store --direct --inline --target 127.0.0.1:1 --handle 1", "--inline excludes --direct"},
      {"block store --direct --target 127.0.0.1:1 --handle 1", "there is no option '--direct'"},
      {"target", "kbtp target: --listen HOST:PORT is missing"},
      {"target --listen 127.0.0.1:x", "the port is a number from 0 to 65535"},
      {"target --listen 127.0.0.1:0 --network safe", "'safe' is none of trusted, untrusted"},
      {"target --listen 0.0.0.0:0", "0.0.0.0 is no loopback address, so --network"},
      {"target --listen [::]:0", ":: is no loopback address, so --network"},
      {"target --listen 127.0.0.1:0 --blocks 0", "kbtp target: --blocks: 0 is not between 1 and"},
      {"target --listen 127.0.0.1:0 --block-size 12", "kbtp target: "},
      {"target --listen 127.0.0.1:0 extra", "kbtp target: nothing is done with 'extra'"},
      {"replay", "kbtp replay: TRACE is required"},
      {"replay t.jsonl --speed 0", "kbtp replay: --speed: '0' is no positive number"},
      {"bench soak --duration soon", "--duration: 'soon' is no duration such as 90s, 35m or 24h"},
      {"bench soak --block-size 12", "kbtp bench soak: --block-size must be a multiple of 8"},
      {"bench soak --rate 0", "kbtp bench soak: --rate and --process-life must not be 0"},
      {"replay t.jsonl --peers 1", "kbtp replay: --peers: 1 is not between 2 and 64"},
      {"replay t.jsonl --capacity 2 --initiators 3", "--capacity must be at least as large as --initiators"},
  };
  for (const auto& [line, expected] : cases) {
    const Finished ended = kbtp(words(line));
    EXPECT_EQ(ended.status, 2) << line;
    EXPECT_THAT(ended.err, StartsWith("kbtp")) << line;
    EXPECT_THAT(ended.err, HasSubstr(expected)) << line;
    EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << line << "\n" << ended.err;
    EXPECT_EQ(ended.out, "") << line;
  }
}

TEST(Usage, EverySubcommandHasHelpWithExamples) {
  for (const char* line : {"target", "block", "block load", "block store", "block alloc-store", "block free",
                           "block stat", "replay", "bench", "bench load", "bench direct-load",
                           "bench direct-alloc", "bench soak", "devices"}) {
    const Finished ended = kbtp(words(std::string(line) + " --help"));
    EXPECT_EQ(ended.status, 0) << line;
    EXPECT_THAT(ended.out, HasSubstr("Example")) << line;
    EXPECT_THAT(ended.out, HasSubstr(std::string("kbtp ") + line)) << line;
    EXPECT_EQ(ended.err, "") << line;
  }
}

TEST(Usage, HelpListsNothingThatIsNotThere) {
  const Finished ended = kbtp({"--help"});
  EXPECT_EQ(ended.status, 0);
  for (const char* there : {"target", "block", "replay", "bench", "dissect", "conform", "devices"})
    EXPECT_THAT(ended.out, HasSubstr(there));
  EXPECT_THAT(ended.out, Not(HasSubstr("ipsec")));
  EXPECT_THAT(kbtp({"--version"}).out, StartsWith("kbtp "));
}

TEST(Usage, AConfigurationMistakeNamesFileAndLine) {
  const std::string path = temporary_file("target.toml", "listen = \"127.0.0.1:0\"\nblcoks = 4\n");
  const Finished ended = kbtp({"target", "--config", path});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr(path + ":2: 'blcoks' is no key of this table"));
}

TEST(Usage, FilesThatCannotBeReadEndWith3) {
  for (const char* line : {"target --config /no/such/file", "replay /no/such/file",
                           "block store --target 127.0.0.1:1 --handle 1 --input /no/such/file"}) {
    const Finished ended = kbtp(words(line));
    EXPECT_EQ(ended.status, 3) << line;
    EXPECT_THAT(ended.err, HasSubstr("/no/such/file cannot be opened: No such file or directory")) << line;
  }
}

TEST(Usage, AFolderIsNoTrace) {
  const Finished ended = kbtp({"replay", "/tmp"});
  EXPECT_EQ(ended.status, 3);
  EXPECT_THAT(ended.err, HasSubstr("/tmp is no regular file"));
}

TEST(Usage, MoreMemoryThanThereIsEndsWith3InWords) {
  const Finished ended =
      kbtp({"target", "--listen", "127.0.0.1:0", "--blocks", "268435456", "--block-size", "1GiB"});
  EXPECT_THAT(ended.status, testing::AnyOf(2, 3));
  EXPECT_THAT(ended.err, StartsWith("kbtp target: "));
}

TEST(Network, AnUntrustedNetworkIsRefusedPlainly) {
  const Finished ended = kbtp({"target", "--listen", "127.0.0.1:0", "--network", "untrusted"});
  EXPECT_EQ(ended.status, 3);
  EXPECT_THAT(ended.err, HasSubstr("IPsec"));
}

TEST(Network, ATrustedNetworkMayBeAnyAddress) {
  Target target({"--listen", "0.0.0.0:0", "--network", "trusted", "--blocks", "4"});
  EXPECT_EQ(target.drain(), "drained: 4 of 4 blocks are free");
}

TEST(Network, AnAddressThatIsTakenEndsWith3) {
  Target target({"--listen", "127.0.0.1:0", "--blocks", "4"});
  const Finished second = kbtp({"target", "--listen", target.endpoint(), "--blocks", "4"});
  EXPECT_EQ(second.status, 3);
  EXPECT_THAT(second.err, HasSubstr("in use"));
}

// Every command that reaches a target tells the phase alike.
void expect_unreachable(const std::string& endpoint, const std::string& phase) {
  const std::string trace = temporary_file(
      "trace.jsonl", R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]})");
  for (const std::string& line :
       {"block stat --handle 1 --target " + endpoint, "replay " + trace + " --target " + endpoint,
        "bench load --target " + endpoint}) {
    const Finished ended = kbtp(words(line));
    EXPECT_EQ(ended.status, 3) << line;
    EXPECT_THAT(ended.err, HasSubstr("cannot reach " + endpoint + ": " + phase + ": ")) << line;
  }
}

// A listener on 127.0.0.1 that runs `answer` for each connection until it is destroyed.
class Server {
 public:
  explicit Server(std::function<void(int)> answer) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(fd_, 16), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this, answer = std::move(answer)] {
      for (int peer = 0; (peer = accept(fd_, nullptr, nullptr)) >= 0;) {
        answer(peer);
        close(peer);
      }
    });
  }
  ~Server() {
    shutdown(fd_, SHUT_RDWR);
    thread_.join();
    close(fd_);
  }
  [[nodiscard]] std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int fd_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

TEST(Unreachable, NameLookup) { expect_unreachable("no-such-host.invalid:7420", "name lookup"); }

TEST(Unreachable, Tcp) {
  std::string closed;
  {
    Server server([](int) {});
    closed = server.endpoint();
  }
  expect_unreachable(closed, "TCP");
}

TEST(Unreachable, MpaWhenThePeerHangsUp) {
  Server server([](int) {});
  expect_unreachable(server.endpoint(), "MPA");
}

TEST(Unreachable, MpaWhenThePeerSpeaksSomethingElse) {
  Server server([](int peer) {
    const std::string_view text = "HTTP/1.1 400 Bad Request\r\n\r\n";
    EXPECT_GT(write(peer, text.data(), text.size()), 0);
    char octets[256];
    while (read(peer, octets, sizeof octets) > 0) {
    }
  });
  expect_unreachable(server.endpoint(), "MPA");
}

/// On a host without RDMA devices, and in a build without rdma-core, one sentence says so.
TEST(Unreachable, NoRdmaDevice) {
  const Finished listed = kbtp({"devices"});
  if (listed.status == 0) {
    EXPECT_THAT(listed.out, HasSubstr("operations"));
    GTEST_SKIP() << "this host has an RDMA device";
  }
  EXPECT_EQ(listed.status, 3);
  EXPECT_THAT(listed.err, AnyOf(HasSubstr("no RDMA device on this host; modprobe rdma_rxe or siw"),
                                HasSubstr("this build has no rdma-core")));
  const std::string trace = temporary_file(
      "trace.jsonl", "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [1]}\n");
  for (const std::string line :
       {"target --listen 127.0.0.1:0 --transport verbs", "bench load --transport verbs",
        "block stat --transport verbs --handle 1 --target 127.0.0.1:7420"}) {
    const Finished ended = kbtp(words(line));
    EXPECT_EQ(ended.status, 3) << line;
    EXPECT_THAT(ended.err, HasSubstr("rdma")) << line;
    EXPECT_EQ(ended.out, "") << line;
  }
  EXPECT_EQ(kbtp({"replay", trace, "--transport", "verbs"}).status, 3);
}

TEST(Unreachable, HelloWhenTheTargetRefusesIt) {
  const std::string config = temporary_file("target.toml", "[anonymous]\naccept = false\n");
  Target target({"--listen", "127.0.0.1:0", "--blocks", "4", "--config", config});
  expect_unreachable(target.endpoint(), "HELLO");
  const Finished ended = kbtp({"block", "stat", "--handle", "1", "--target", target.endpoint()});
  EXPECT_THAT(ended.err, HasSubstr("ACCESS_DENIED"));
}

}  // namespace
}  // namespace kbtp::e2e
