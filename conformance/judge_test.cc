// Every judge is shown traces that it must accept and traces that it must not.

#include "conformance/judge.h"

#include <gtest/gtest.h>

#include "conformance/session.h"
#include "conformance/synthetic.h"

namespace kbtp::conformance {
namespace {

using rdmap::Opcode;
using wire::Status;

constexpr std::uint32_t kStag = 0x1234;

TEST(JudgeCompletes, TakesTheDueStatusOnly) {
  EXPECT_EQ(Synthetic().completion(7).grade(completes("r", 0, 7, Status::success)), Grade::exact);
  EXPECT_EQ(Synthetic().completion(7, Status::no_space).grade(completes("r", 0, 7, Status::success)),
            Grade::wrong);
  EXPECT_EQ(Synthetic().completion(8).grade(completes("r", 0, 7, Status::success)), Grade::wrong);
  EXPECT_EQ(Synthetic().completion(7).completion(7).grade(completes("r", 0, 7, Status::success)),
            Grade::wrong);
  EXPECT_EQ(Synthetic().grade(completes("r", 0, 7, Status::success)), Grade::wrong);
}

TEST(JudgeCompletes, NamesTheFrame) {
  const Finding finding =
      Synthetic().request(7).completion(7).judged_by(completes("r", 0, 7, Status::success));
  EXPECT_EQ(finding.frames, (std::vector<std::uint64_t>{2}));
}

TEST(JudgeRefuses, TakesAnotherRefusalAsWeakAndSuccessAsWrong) {
  const auto due = refuses("r", 0, 7, Status::sealed);
  EXPECT_EQ(Synthetic().completion(7, Status::sealed).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().completion(7, Status::not_owner).grade(due), Grade::weak);
  EXPECT_EQ(Synthetic().completion(7).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().fin(Side::target).grade(due), Grade::wrong);
}

TEST(JudgeRefuses, WantsAnAnswerOfVersion1) {
  wire::Completion completion;
  completion.request_id = 7;
  completion.status = Status::unsupported_version;
  auto octets = wire::encode(completion);
  octets[0] = std::byte{2};
  EXPECT_EQ(Synthetic().send(Side::target, octets).grade(refuses("r", 0, 7, Status::unsupported_version)),
            Grade::wrong);
}

TEST(JudgeRefusesOrCompletes, TakesSuccessAndInvalidRequest) {
  const auto due = refuses_or_completes("r", 0, 7);
  EXPECT_EQ(Synthetic().completion(7).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().completion(7, Status::invalid_request).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().completion(7, Status::target_error).grade(due), Grade::wrong);
}

TEST(JudgeStaysUnanswered, FailsOnAnAnswer) {
  EXPECT_EQ(Synthetic().completion(8).grade(stays_unanswered("r", 0, 7)), Grade::exact);
  EXPECT_EQ(Synthetic().completion(7, Status::sealed).grade(stays_unanswered("r", 0, 7)), Grade::wrong);
}

TEST(JudgeEchoesRequestIds, FailsOnStrangeAndSecondAnswers) {
  const auto due = echoes_request_ids("r", 0);
  EXPECT_EQ(Synthetic().request(7).completion(7).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().request(0x1'0000'0007).completion(7).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().request(7).completion(7).completion(7).grade(due), Grade::wrong);
}

TEST(JudgeInvalidates, WantsTheSameStagOrNone) {
  EXPECT_EQ(
      Synthetic().completion(7, Status::success, {.invalidate = kStag}).grade(invalidates("r", 0, 7, kStag)),
      Grade::exact);
  EXPECT_EQ(
      Synthetic().completion(7, Status::success, {.invalidate = 1}).grade(invalidates("r", 0, 7, kStag)),
      Grade::wrong);
  EXPECT_EQ(Synthetic().completion(7).grade(invalidates("r", 0, 7, kStag)), Grade::wrong);
  EXPECT_EQ(Synthetic().completion(7).grade(invalidates("r", 0, 7, std::nullopt)), Grade::exact);
  EXPECT_EQ(Synthetic()
                .completion(7, Status::success, {.invalidate = 1})
                .grade(invalidates("r", 0, 7, std::nullopt)),
            Grade::wrong);
}

TEST(JudgeRelates, ComparesEachField) {
  const auto pair = [](Synthetic::Fields a, Synthetic::Fields b, Relation relation) {
    return Synthetic()
        .completion(1, Status::success, a)
        .completion(2, Status::success, b)
        .grade(relates("r", 0, 1, 2, relation));
  };
  EXPECT_EQ(pair({}, {.data_length = 9}, {.data_length = 9}), Grade::exact);
  EXPECT_EQ(pair({}, {.data_length = 8}, {.data_length = 9}), Grade::wrong);
  EXPECT_EQ(pair({}, {}, {.same_block = true}), Grade::exact);
  EXPECT_EQ(pair({}, {.block_offset = 0}, {.same_block = true}), Grade::wrong);
  EXPECT_EQ(pair({}, {.block_offset = 0x2000}, {.other_block = true}), Grade::exact);
  EXPECT_EQ(pair({}, {}, {.other_block = true}), Grade::wrong);
  EXPECT_EQ(pair({}, {.block_offset = ~std::uint64_t{0}}, {.other_block = true}), Grade::wrong);
  EXPECT_EQ(pair({}, {}, {.same_generation = true}), Grade::exact);
  EXPECT_EQ(pair({.generation = 0}, {.generation = 0}, {.same_generation = true}), Grade::wrong);
  EXPECT_EQ(pair({.generation = 0xFFFF}, {.generation = 1}, {.next_generation = true}), Grade::exact);
  EXPECT_EQ(pair({.generation = 0xFFFF}, {.generation = 0}, {.next_generation = true}), Grade::wrong);
  EXPECT_EQ(pair({}, {}, {.next_generation = true}), Grade::wrong);
  EXPECT_EQ(Synthetic().completion(1).grade(relates("r", 0, 1, 2, {.same_block = true})), Grade::wrong);
}

TEST(JudgeTellsNothing, FailsOnAnyField) {
  const Synthetic::Fields nothing{.generation = 0, .data_length = 0, .block_offset = 0};
  EXPECT_EQ(Synthetic().completion(7, Status::no_such_handle, nothing).grade(tells_nothing("r", 0, 7)),
            Grade::exact);
  EXPECT_EQ(Synthetic()
                .completion(7, Status::no_such_handle, {.generation = 1, .block_offset = 0})
                .grade(tells_nothing("r", 0, 7)),
            Grade::wrong);
}

TEST(JudgeGenerations, WantsAWrapWithoutZero) {
  const auto run = [](std::initializer_list<std::uint16_t> generations) {
    Synthetic trace;
    for (const std::uint16_t g : generations) trace.completion(g, Status::success, {.generation = g});
    return trace.grade(generations_wrap_without_zero("r", 0));
  };
  EXPECT_EQ(run({0xFFFE, 0xFFFF, 1, 2}), Grade::exact);
  EXPECT_EQ(run({0xFFFE, 0xFFFF, 0, 1}), Grade::wrong);
  EXPECT_EQ(run({1, 2, 3}), Grade::unclear);
}

TEST(JudgePlaces, WantsExactlyTheData) {
  const auto data = pattern(1, 100);
  const auto due = places("r", 0, kStag, 0x1000, data);
  const auto write = [&](std::uint64_t offset, Octets octets) {
    return Synthetic().tagged(Side::target, Opcode::rdma_write, kStag, offset, octets);
  };
  EXPECT_EQ(write(0x1000, data).grade(due), Grade::exact);
  EXPECT_EQ(write(0x1000, Octets(data).first(60))
                .tagged(Side::target, Opcode::rdma_write, kStag, 0x1000 + 60, Octets(data).subspan(60))
                .grade(due),
            Grade::exact);
  EXPECT_EQ(write(0x1000, Octets(data).first(99)).grade(due), Grade::wrong);
  EXPECT_EQ(write(0x1000, pattern(1, 101)).grade(due), Grade::wrong);
  EXPECT_EQ(write(0x0FFF, data).grade(due), Grade::wrong);
  EXPECT_EQ(write(0x1000, pattern(2, 100)).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().grade(due), Grade::wrong);
}

TEST(JudgePlacesNothing, FailsOnAWriteWithPayload) {
  const auto due = places_nothing("r", 0, kStag);
  EXPECT_EQ(Synthetic().tagged(Side::target, Opcode::rdma_write, kStag, 0, {}).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().tagged(Side::target, Opcode::rdma_write, kStag, 0, pattern(1, 1)).grade(due),
            Grade::wrong);
}

TEST(JudgePlacesBeforeCompleting, LooksAtTheOrder) {
  const auto data = pattern(1, 8);
  const auto due = places_before_completing("r", 0, kStag, 7);
  EXPECT_EQ(Synthetic().tagged(Side::target, Opcode::rdma_write, kStag, 0, data).completion(7).grade(due),
            Grade::exact);
  EXPECT_EQ(Synthetic().completion(7).tagged(Side::target, Opcode::rdma_write, kStag, 0, data).grade(due),
            Grade::wrong);
  EXPECT_EQ(Synthetic().completion(7).grade(due), Grade::wrong);
}

TEST(JudgeReads, WantsExactlyTheDescriptor) {
  const auto due = reads("r", 0, kStag, 0x1000, 100);
  const auto read = [](std::uint64_t offset, std::uint32_t size, std::uint32_t stag = kStag) {
    return Synthetic().read_request({1, 0, size, stag, offset});
  };
  EXPECT_EQ(read(0x1000, 100).grade(due), Grade::exact);
  EXPECT_EQ(read(0x1000, 60).read_request({1, 0, 40, kStag, 0x1000 + 60}).grade(due), Grade::exact);
  EXPECT_EQ(read(0x1000, 99).grade(due), Grade::wrong);
  EXPECT_EQ(read(0x1004, 100).grade(due), Grade::wrong);
  EXPECT_EQ(read(0x1000, 100, 9).grade(due), Grade::wrong);
  EXPECT_EQ(read(0x1000, 100).grade(reads_nothing("r", 0, kStag)), Grade::wrong);
  EXPECT_EQ(read(0x1000, 100, 9).grade(reads_nothing("r", 0, kStag)), Grade::exact);
}

TEST(JudgeCompletesAfterReading, LooksAtTheOrder) {
  const auto due = completes_after_reading("r", 0, 7);
  const auto data = pattern(1, 8);
  EXPECT_EQ(Synthetic().tagged(Side::suite, Opcode::read_response, 1, 0, data).completion(7).grade(due),
            Grade::exact);
  EXPECT_EQ(Synthetic().completion(7).tagged(Side::suite, Opcode::read_response, 1, 0, data).grade(due),
            Grade::wrong);
  EXPECT_EQ(Synthetic().completion(7).grade(due), Grade::wrong);
}

TEST(JudgeKeepsReadsWithin, CountsWhatIsOutstanding) {
  const auto due = keeps_reads_within("r", 0, 1);
  const auto response = [](Synthetic trace) {
    return trace.tagged(Side::suite, Opcode::read_response, 1, 0, pattern(1, 8));
  };
  EXPECT_EQ(response(response(Synthetic().read_request({})).read_request({})).grade(due), Grade::exact);
  EXPECT_EQ(response(Synthetic().read_request({}).read_request({})).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().grade(due), Grade::unclear);
}

}  // namespace
}  // namespace kbtp::conformance
