#!/bin/sh
# PID 1 of a guest of the lab. Mounts the folder that the host shares (9p) at /host, runs the host's /host/setup.sh, then
# obeys lines that come over the second serial port:
#
#   run ID            start /host/jobs/ID/command in a process group of its own; its output goes to files beside it
#   signal ID NAME    send that signal to that process group
#   off               power off
#
# and tells the host there:  ready STATUS  (setup.sh's) and, as each job ends,  exit ID STATUS.
export PATH=/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t devpts pts /dev/pts
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mkdir /run/jobs
# dash, which is sh here, has it.
# shellcheck disable=SC3045
ulimit -l unlimited
ip link set lo up
for module in virtio_pci virtio_net virtio_rng 9pnet_virtio 9p; do modprobe -q "$module"; done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 host /host || { echo 'lab: no shared folder'; poweroff -f; }

stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
sh /host/setup.sh >/host/setup.log 2>&1 </dev/null
echo "ready $?" >&3

start() {
  setsid sh "/host/jobs/$1/command" >"/host/jobs/$1/stdout" 2>"/host/jobs/$1/stderr" </dev/null 3>&- &
  echo $! >"/run/jobs/$1"
  wait $!
  echo "exit $1 $?" >&3
}

while read -r verb id signal <&3; do
  case $verb in
    run) start "$id" & ;;
    signal)
      tries=50
      until [ -s "/run/jobs/$id" ] || [ $tries = 0 ]; do usleep 20000; tries=$((tries - 1)); done
      kill -s "$signal" -- "-$(cat "/run/jobs/$id")" ;;
    off) poweroff -f ;;
  esac
done
poweroff -f
