#!/usr/bin/env python3
"""extract_vmlinux.py BZIMAGE VMLINUX: takes the ELF kernel out of a compressed x86 boot image.

QEMU boots the ELF file through PVH, without the seconds that decompressing takes under emulation. Where the compressed
kernel lies is told by the image's setup header (Linux Documentation/arch/x86/boot.rst: setup_sects at 0x1f1,
payload_offset at 0x248, payload_length at 0x24c).
"""

import lzma
import struct
import subprocess
import sys
import zlib


def payload(image: bytes) -> bytes:
    if image[0x202:0x206] == b"\0\0\0\0" or image[0x1FE:0x200] != b"\x55\xaa":
        raise SystemExit("extract_vmlinux: not a boot image")
    protected_mode = ((image[0x1F1] or 4) + 1) * 512
    offset, length = struct.unpack_from("<II", image, 0x248)
    return image[protected_mode + offset : protected_mode + offset + length]


def decompress(data: bytes) -> bytes:
    if data.startswith(b"\xfd7zXZ\0"):
        return lzma.LZMADecompressor().decompress(data)
    if data.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(data)
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(["zstd", "-dc"], input=data[:-4], stdout=subprocess.PIPE, check=False).stdout
    raise SystemExit(f"extract_vmlinux: unknown compression, it begins with {data[:8].hex()}")


def main() -> None:
    with open(sys.argv[1], "rb") as file:
        kernel = decompress(payload(file.read()))
    if not kernel.startswith(b"\x7fELF"):
        raise SystemExit("extract_vmlinux: what was compressed is no ELF file")
    with open(sys.argv[2], "wb") as file:
        file.write(kernel)


main()
