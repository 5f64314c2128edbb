#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job whose ranks have the RAS of the real NCCL, without a GPU: its threads, its network, its answers; only the communicator is made up.

nccl_ras.py --counts N,N... [--address HOST:PORT]

Each rank loads libnccl.so.2 (tests/setup/nccl.sh) and calls the two functions that ncclCommInitRank() calls for RAS, which are not exported:
their places come from its table of symbols. They get a structure of the size of NCCL's communicator in which the fields that RAS reads are
set, at the offsets that NCCL's own comm.h of that release gives (offsetof). All ranks wait in all_reduce(), but for those that have launched
fewer operations: they sleep elsewhere.

Prints "READY" and {"ranks": [pid...], "address": [host, port]}; ends with its standard input.
"""
import argparse
import ctypes
import json
import os
import struct
import subprocess
import sys
import time

VERSION = "2.28.9"  # JSON and text; PyTorch 2.11 has it
# struct ncclComm, struct ncclPeerInfo, struct rasRankInit
COMM_SIZE, PEER_INFO_SIZE, RANK_INIT_SIZE = 1082968, 120, 56
COMM = {"commHash": 1066184, "peerInfo": 26272, "peerInfoValid": 26312, "nRanks": 1066196, "rank": 1066192, "cudaDev": 1066200,
        "nvmlDev": 1066204, "seqNumber": 1075728, "abortFlag": 1069048}
PEER_HASHES = 16
RANK_INIT_PID = 28
HASH = 0x7e5c0d1a2b3c4d5e
HOST, PROCESS = 1000, 2000  # hashes of them; NCCL adds the communicator's
COLLECTIVE = "def all_reduce(nothing):\n    import os\n    os.read(nothing, 1)\n"


def cache():
    return os.environ.get("VRAMTAP_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"), "vramtap")


def library():
    return os.path.join(cache(), "nccl", VERSION, "libnccl.so.2")


def is_there():
    return os.path.exists(library()) and os.path.exists(os.path.join(os.path.dirname(library()), "symbols"))


def functions():
    """The two functions of the library, which is loaded for it."""
    path = os.path.realpath(library())
    ctypes.CDLL(path)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        base = min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(path))
    with open(os.path.join(os.path.dirname(library()), "symbols"), encoding="ascii") as symbols:
        places = {line.split(None, 2)[2].split("(")[0]: int(line.split()[0], 16) for line in symbols}
    init = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(base + places["ncclRasCommInit"])
    add = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(base + places["ncclRasAddRanks"])
    return init, add


class Communicator:
    def __init__(self, rank, counts):
        self.comm = ctypes.create_string_buffer(COMM_SIZE)
        self.peers = ctypes.create_string_buffer(PEER_INFO_SIZE * len(counts))
        self.abort = ctypes.create_string_buffer(8)
        for peer in range(len(counts)):
            struct.pack_into("<iii", self.peers, PEER_INFO_SIZE * peer, peer, peer, peer)
            struct.pack_into("<QQ", self.peers, PEER_INFO_SIZE * peer + PEER_HASHES, HASH + HOST, HASH + PROCESS + peer)
        for field, value in (("commHash", HASH), ("peerInfo", ctypes.addressof(self.peers)), ("abortFlag", ctypes.addressof(self.abort))):
            struct.pack_into("<Q", self.comm, COMM[field], value)
        for field, value in (("nRanks", len(counts)), ("rank", rank), ("cudaDev", rank), ("nvmlDev", rank)):
            struct.pack_into("<i", self.comm, COMM[field], value)
        struct.pack_into("<5Q", self.comm, COMM["seqNumber"], 3, 3, 3, 3, counts[rank])
        struct.pack_into("<B", self.comm, COMM["peerInfoValid"], 1)


def save_metrics():
    time.sleep(600)


def run_rank(rank, counts):
    init, add = functions()
    communicator = Communicator(rank, counts)
    mine = ctypes.create_string_buffer(RANK_INIT_SIZE)
    struct.pack_into("<HH4B", mine, 0, 2, 0, 127, 0, 0, 1)
    struct.pack_into("<iiiQQ", mine, RANK_INIT_PID, os.getpid(), rank, rank, HOST, PROCESS + rank)
    if init(ctypes.addressof(communicator.comm), ctypes.addressof(mine)):
        raise SystemExit("ncclRasCommInit failed")
    print(mine.raw.hex(), flush=True)
    everybody = bytes.fromhex(sys.stdin.readline())
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    copy = libc.malloc(ctypes.c_size_t(len(everybody)))  # the thread of RAS frees it
    ctypes.memmove(copy, everybody, len(everybody))
    add(copy, len(counts))
    names = {}
    exec(compile(COLLECTIVE, "/nowhere/torch/distributed/distributed_c10d.py", "exec"), names)  # pylint: disable=exec-used
    print("waits", flush=True)
    if counts[rank] < max(counts):
        save_metrics()
    names["all_reduce"](os.pipe()[0])


def launch(args, counts):
    ranks = []
    for rank in range(len(counts)):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(len(counts)), TORCHELASTIC_RUN_ID="4711",
                   NCCL_RAS_ADDR=args.address)
        ranks.append(subprocess.Popen([sys.executable, "-B", os.path.realpath(__file__), *sys.argv[1:]], env=env, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE))
    everybody = "".join(sorted(rank.stdout.readline().decode().strip() for rank in ranks))
    for rank in ranks:
        rank.stdin.write(everybody.encode() + b"\n")
        rank.stdin.flush()
        rank.stdout.readline()
    host, _, port = args.address.rpartition(":")
    print("READY " + json.dumps({"ranks": [rank.pid for rank in ranks], "address": [host, int(port)]}), flush=True)
    try:
        sys.stdin.read()
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--counts", required=True)
    parser.add_argument("--address", required=True)
    args = parser.parse_args()
    counts = [int(count) for count in args.counts.split(",")]
    if "RANK" in os.environ:
        run_rank(int(os.environ["RANK"]), counts)
    else:
        launch(args, counts)


if __name__ == "__main__":
    main()
