#!/usr/bin/env bash
# The installed package as a user meets it: cmake --install, find_package from a project of their own, the .deb.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install build/release --prefix "$work/prefix" >/dev/null
cmake -S tests/package/consumer -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/consumer"
"$work/consumer/consumer"

for page in "$work"/prefix/share/man/man1/*.1; do
  [[ -s $page ]] || { echo "empty man page: $page" >&2; exit 1; }
done
"$work/prefix/bin/kbtp" --help >/dev/null
bash -n "$work/prefix/share/bash-completion/completions/kbtp"

(cd build/release && cpack -G DEB -B "$work/deb" >/dev/null)
deb=$(find "$work/deb" -maxdepth 1 -name '*.deb')
contents=$(dpkg-deb --contents "$deb")
for path in usr/bin/kbtp usr/bin/kbtp-trace-gen usr/share/man/man1/kbtp.1 usr/lib/cmake/kbtp/kbtpConfig.cmake \
  usr/lib/wireshark/plugins/kbtp.lua; do
  grep -q "$path" <<<"${contents//x86_64-linux-gnu\//}" || { echo "$(basename "$deb") lacks $path" >&2; exit 1; }
done
dpkg-deb --field "$deb" Depends | grep -q libpcap
echo "package: install, find_package, man pages, completion and $(basename "$deb") are right"
