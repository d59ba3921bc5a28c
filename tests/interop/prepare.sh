#!/usr/bin/env bash
# prepare.sh CACHE: makes, from Debian packages alone, what a guest of the lab boots, and prints where it lies:
#
#   KERNEL=DIR   vmlinux, and lib/modules/VERSION with siw.ko (Debian's source, untouched) and siw-params.ko
#   IMAGE=FILE   the initramfs: busybox, rdma-core's and perftest's tools, the modules, the guest's /init
#
# Both are cached in CACHE under a name made of the versions and files that went into them. Several calls at once are
# fine: one makes, the others wait. Nothing is installed on this host; the packages of ./run's LAB_PACKAGES must be.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${1:?usage: prepare.sh CACHE}
mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd)

IMAGE_PACKAGES=(busybox-static dash kmod iproute2 tcpdump ethtool strace rdma-core rdmacm-utils ibverbs-utils ibverbs-providers perftest
  libibverbs1 librdmacm1 libc6)
IMAGE_TOOLS=(/usr/sbin/{ip,ethtool} /usr/bin/{ss,rdma,tcpdump,strace,kmod,dash}
  /usr/bin/ibv_{devices,devinfo,rc_pingpong} /usr/bin/{rping,rdma_server,rdma_client,ucmatose,rcopy,rstream}
  /usr/bin/ib_{read,write,send,atomic}_{bw,lat})
IMAGE_MODULES=(virtio_pci virtio_net virtio_rng 9p 9pnet_virtio veth dummy
  crc32c_generic crc32c-intel crc32_generic crc32_pclmul
  ib_core ib_uverbs rdma_ucm iw_cm ib_cm rdma_rxe siw siw-params)

# Debian's kernel at this moment: the version in the package's name, and the package's own.
find_kernel() {
  KVER=$(apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/.*Depends: linux-image-//p' | head -n 1)
  [[ -n $KVER ]] || return 1
  PVER=$(apt-cache show "linux-image-$KVER" 2>/dev/null | sed -n 's/^Version: //p' | head -n 1)
  ABI=${KVER%-amd64}
  SERIES=$(cut -d. -f1,2 <<<"$KVER")
  [[ -n $PVER ]]
}

digest() { sha256sum | cut -c1-16; }

# once NAME MAKER: makes the directory CACHE/NAME by MAKER (called in an empty directory beside it) unless it is there.
once() {
  local name=$1 maker=$2 making status
  [[ -d $CACHE/$name ]] && return
  exec 9>"$CACHE/$name.lock"
  flock 9
  if [[ ! -d $CACHE/$name ]]; then
    making=$(mktemp -d "$CACHE/making.XXXXXX")
    # shellcheck disable=SC2064  # the directory of this call
    trap "rm -rf '$making'" EXIT
    # Not in a condition: there 'set -e' would not hold inside.
    set +e
    (set -e; cd "$making"; "$maker") >"$CACHE/$name.log" 2>&1
    status=$?
    set -e
    ((status == 0)) ||
      { echo "prepare.sh: $maker failed; the last lines of $CACHE/$name.log:" >&2; tail -n 20 "$CACHE/$name.log" >&2; exit 3; }
    # Left behind by a call that was killed; whoever makes one now holds the lock of another name.
    find "$CACHE" -maxdepth 1 -name 'making.*' -mmin +60 -exec rm -rf {} +
    mv "$making" "$CACHE/$name"
  fi
  exec 9>&-
}

download() {
  local wanted=("linux-image-$KVER=$PVER" "linux-headers-$KVER=$PVER" "linux-headers-$ABI-common=$PVER"
    "linux-kbuild-$SERIES=$PVER" "linux-source-$SERIES=$PVER")
  apt-get download -qq "${wanted[@]}" || { apt-get update -qq && apt-get download -qq "${wanted[@]}"; }
}

# In the current directory: vmlinux and lib/modules; all else is removed again.
make_kernel() {
  local root=$PWD/root source=$PWD/source
  mkdir debs "$root" "$source"
  (cd debs && download)
  dpkg-deb --fsys-tarfile debs/linux-image-*.deb | tar -x -C "$root" "./boot/vmlinuz-$KVER" "./lib/modules/$KVER"
  local package
  for package in debs/linux-headers-*.deb debs/linux-kbuild-*.deb; do dpkg -x "$package" "$root"; done
  # Debian's headers name their common part by its installed path.
  sed -i "s#/usr/src/linux-headers-$ABI-common#$root&#" "$root/usr/src/linux-headers-$KVER/Makefile"
  dpkg-deb --fsys-tarfile debs/linux-source-*.deb | tar -xO "./usr/src/linux-source-$SERIES.tar.xz" |
    tar -xJ -C "$source" --strip-components=4 "linux-source-$SERIES/drivers/infiniband/sw/siw"

  make_siw "$source/siw" siw
  cp -r "$source/siw" "$source/siw-params"
  tunables_to_parameters "$source/siw-params"
  make_siw "$source/siw-params" siw-params

  python3 "$HERE/extract_vmlinux.py" "$root/boot/vmlinuz-$KVER" vmlinux
  mkdir -p lib/modules
  mv "$root/lib/modules/$KVER" lib/modules/
  depmod -b . "$KVER"
  rm -rf debs root source
}

# make_siw DIR NAME: compiles siw's source in DIR as the module NAME.ko. The module calls itself siw in either case.
make_siw() {
  sed -i 's/^obj-.*/obj-m := siw.o/' "$1/Makefile"
  make -C "$root/usr/src/linux-headers-$KVER" M="$1" modules
  install -D -m 644 "$1/siw.ko" "$root/lib/modules/$KVER/extra/$2.ko"
}

# siw decides at compile time whether it asks for a CRC, for peer-to-peer mode, for which MPA revision. In this second
# module each of these is a parameter with the same default, writable at run time under /sys/module/siw/parameters.
tunables_to_parameters() {
  local tunable
  for tunable in zcopy_tx try_gso mpa_crc_required mpa_crc_strict siw_tcp_nagle peer_to_peer; do
    grep -q "^const bool $tunable\b" "$1/siw_main.c" || { echo "siw has no tunable $tunable"; return 1; }
    sed -i "s/^const bool $tunable\b.*/&\nmodule_param($tunable, bool, 0644);/; s/^const bool $tunable\b/bool $tunable/" "$1/siw_main.c"
    sed -i "s/extern const bool $tunable;/extern bool $tunable;/" "$1/siw.h"
  done
  sed -i 's/^u_char mpa_version = .*;/&\nmodule_param(mpa_version, byte, 0644);/' "$1/siw_main.c"
  grep -q 'module_param(mpa_version' "$1/siw_main.c" || { echo 'siw has no mpa_version'; return 1; }
  sed -i '/#include "siw.h"/i #include <linux/moduleparam.h>' "$1/siw_main.c"
}

# copy_elf FILE DIR: FILE into DIR of the image, with the libraries that it needs at their own places.
copy_elf() {
  cp -L "$1" "tree/$2/"
  local library
  while read -r library; do
    case $library in
      */ld-linux*) cp -Lu "$library" tree/usr/lib64/ ;;
      *) cp -Lu "$library" tree/usr/lib/x86_64-linux-gnu/ ;;
    esac
  done < <(ldd "$1" 2>/dev/null | awk '/=> \//{print $3} /^\t\/lib/{print $1}')
}

make_image() {
  mkdir -p tree/usr/{bin,lib64,lib/x86_64-linux-gnu/libibverbs} tree/{proc,sys,dev,tmp,run,root,host,etc/libibverbs.d,var}
  ln -s usr/bin tree/bin && ln -s usr/bin tree/sbin && ln -s bin tree/usr/sbin
  ln -s usr/lib tree/lib && ln -s usr/lib64 tree/lib64 && ln -s /run tree/var/run
  cp "$(command -v busybox)" tree/usr/bin/busybox
  local applet tool provider module path
  for applet in $(busybox --list); do [[ $applet == busybox ]] || ln -sf busybox "tree/usr/bin/$applet"; done
  # The real ones: busybox's modprobe knows no soft dependencies, and its shell runs its own ip before it looks at PATH.
  for applet in ip sh modprobe insmod lsmod rmmod modinfo; do rm -f "tree/usr/bin/$applet"; done
  for tool in "${IMAGE_TOOLS[@]}"; do [[ -e $tool ]] && copy_elf "$tool" usr/bin; done
  ln -s dash tree/usr/bin/sh
  for applet in modprobe insmod lsmod rmmod modinfo; do ln -s kmod "tree/usr/bin/$applet"; done
  cp -L /lib/x86_64-linux-gnu/libgcc_s.so.1 tree/usr/lib/x86_64-linux-gnu/  # dlopened at a thread's end
  for provider in siw rxe; do
    copy_elf /usr/lib/x86_64-linux-gnu/libibverbs/lib$provider-rdmav34.so usr/lib/x86_64-linux-gnu/libibverbs
    cp /etc/libibverbs.d/$provider.driver tree/etc/libibverbs.d/
  done
  for module in "${IMAGE_MODULES[@]}"; do
    modprobe -d "$CACHE/$KERNEL_NAME" -S "$KVER" --show-depends "$module" 2>/dev/null | awk '$1 == "insmod" {print $2}' || true
  done | awk '!seen[$0]++' | while read -r path; do
    install -D -m 644 "$path" "tree/usr/lib/modules/$KVER/${path#*/lib/modules/"$KVER"/}"
    strip -g "tree/usr/lib/modules/$KVER/${path#*/lib/modules/"$KVER"/}"
  done
  cp "$CACHE/$KERNEL_NAME/lib/modules/$KVER"/modules.{order,builtin,builtin.modinfo} "tree/usr/lib/modules/$KVER/"
  depmod -b tree "$KVER"
  printf 'root:x:0:0::/root:/bin/sh\n' >tree/etc/passwd
  printf 'root:x:0:\n' >tree/etc/group
  printf '127.0.0.1 localhost\n::1 localhost\n' >tree/etc/hosts
  printf 'hosts: files\n' >tree/etc/nsswitch.conf
  install -m 755 "$HERE/guest_init.sh" tree/init
  (cd tree && find . -print0 | sort -z | cpio -o -0 -H newc -R 0:0 --quiet) >initramfs.cpio
  rm -rf tree
}

# Asking apt and dpkg takes seconds on a busy machine: the last answer holds as long as what it came from is as it was.
signature=$(stat -c '%n %Y %s' /var/lib/apt/lists /var/lib/dpkg/status "$HERE"/{prepare.sh,guest_init.sh,extract_vmlinux.py} | digest)
if [[ -f $CACHE/answer.$signature ]]; then
  answer=$(<"$CACHE/answer.$signature")
  image=${answer##*IMAGE=}
  kernel=${answer#KERNEL=}
  [[ -f $image && -f ${kernel%%$'\n'*}/vmlinux ]] && { echo "$answer"; exit; }
fi

find_kernel || { apt-get update -qq && find_kernel; } ||
  { echo 'prepare.sh: apt knows no linux-image-amd64; the lab needs a Debian with its main archive' >&2; exit 3; }

KERNEL_NAME=kernel-$KVER-$PVER-$(cat "$HERE/extract_vmlinux.py" <(declare -f make_kernel make_siw tunables_to_parameters) | digest)
once "$KERNEL_NAME" make_kernel
image_key=$({ dpkg-query -W -f '${Package} ${Version}\n' "${IMAGE_PACKAGES[@]}" 2>/dev/null || true
  echo "$KERNEL_NAME ${IMAGE_TOOLS[*]} ${IMAGE_MODULES[*]}"
  declare -f make_image copy_elf
  cat "$HERE/guest_init.sh"; } | digest)
once "image-$KVER-$image_key" make_image
answer="KERNEL=$CACHE/$KERNEL_NAME
IMAGE=$CACHE/image-$KVER-$image_key/initramfs.cpio"
rm -f "$CACHE"/answer.*
echo "$answer" >"$CACHE/answer.$signature.$$"
mv "$CACHE/answer.$signature.$$" "$CACHE/answer.$signature"
echo "$answer"
