"""Checks for which GPUs an object of nvcc holds code: machine code for each architecture, and PTX of the last one.

usage: architectures.py OBJECT sm_80 sm_90...
"""
import pathlib
import struct
import sys

FAT_BINARY = struct.pack("<I", 0xBA55ED50)
PTX, MACHINE_CODE = 1, 2


def contents(data):
    """(kind, architecture) of each entry of each fat binary, as nvcc writes them into the section .nv_fatbin."""
    at = data.find(FAT_BINARY)
    while at >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", data, at)
        entry, end = at + header, at + header + size
        while entry < end:
            kind, _, entry_header, entry_size = struct.unpack_from("<HHIQ", data, entry)
            yield kind, struct.unpack_from("<I", data, entry + 28)[0]
            entry += entry_header + entry_size
        at = data.find(FAT_BINARY, at + 4)


def main():
    wanted = [int(name.removeprefix("sm_")) for name in sys.argv[2:]]
    expected = sorted([(MACHINE_CODE, one) for one in wanted] + [(PTX, wanted[-1])])
    got = sorted(set(contents(pathlib.Path(sys.argv[1]).read_bytes())))
    if got != expected:
        sys.exit(f"{sys.argv[1]}: expected code (1: PTX, 2: machine code) {expected}, got {got}")


main()
