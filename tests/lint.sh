#!/usr/bin/env bash
# Style and static analysis of every source file that git knows, with the repository's own .clang-format and .clang-tidy.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mapfile -t sources < <(git ls-files '*.h' '*.cc')
clang-format-19 --dry-run -Werror "${sources[@]}"

# The Clang build's commands: GCC's know warning options that Clang does not. Tests are left out: GoogleTest's macros
# triple the time and hide what is ours.
[[ -f build/asan/compile_commands.json ]] || cmake --preset asan >/dev/null
run-clang-tidy-19 -p build/asan -quiet -j 2 "^$PWD/(base|proto|verbs|rdmap_binding|ib_binding|pcap|conformance|tools)/(?!.*_test\.cc$).*\.cc$" \
  > build/clang-tidy.log 2>&1 || { grep -E 'warning:|error:' build/clang-tidy.log | sort -u >&2; exit 1; }
echo "clang-format and clang-tidy: ${#sources[@]} files clean"
