#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fake job whose ranks listen for clients of NCCL's RAS and talk to them as NCCL's sources do (src/ras/client_support.cc).

ras_job.py [--ranks N] [--counts N,N...] [--lost RANK] [--silent RANK] [--form json|text|first-json] [--manner MANNER]
           [--address HOST:PORT] [--no-listener] [--new-network] [--rise N,N...]

Every rank waits in all_reduce(), but for those that have launched fewer operations than others: they wait elsewhere. All listen at one
address, with SO_REUSEPORT, as NCCL does; the kernel chooses which rank gets a connection. --rise: so many operations more each second.
--new-network: in a network namespace of their own.
Forms: text is that of NCCL 2.24, which knows no other;
json that of 2.29; first-json that of 2.28.7, in which a comma is missing. Manners:

  answer   as NCCL
  deaf     nobody accepts
  one-deaf rank 0 does not accept
  mute     nobody says anything
  slow     a byte of the answer every 50 ms
  endless  the answer has no end
  garbage  bytes without sense in place of the answer
  other    what listens is no RAS
  worse    bytes without sense in place of each answer but the first one
  cut      the connection is closed in the middle of each answer but the first one
  early    the connection is closed in the middle of the answer
  late     other ranks are asked first, and one does not answer: RAS waits for as long as it was told

Prints "READY" and {"ranks": [pid...], "address": [host, port]}; each connection is a line on standard error: the rank, and what was sent.
"""
import argparse
import ctypes
import fcntl
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

CLONE_NEWNET, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8914, 1
NOTHING = os.pipe()
HASH = 0x9d3c5f0a11e2b447
OPERATIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--counts", default="")
    parser.add_argument("--rise", default="")
    parser.add_argument("--lost", type=int, default=-1)
    parser.add_argument("--silent", type=int, default=-1)
    parser.add_argument("--form", default="json")
    parser.add_argument("--manner", default="answer")
    parser.add_argument("--address", default="127.0.0.1:0")
    parser.add_argument("--no-listener", action="store_true")
    parser.add_argument("--new-network", action="store_true")
    args = parser.parse_args()
    args.counts = [int(count) for count in args.counts.split(",") if count] or [6] * args.ranks
    args.rise = [int(rise) for rise in args.rise.split(",") if rise] or [0] * args.ranks
    return args


def at_this_moment(args):
    """With the counts of this moment, the same for all clients."""
    now = time.monotonic()
    return argparse.Namespace(**dict(vars(args), counts=[count + int(rise * now) for count, rise in zip(args.counts, args.rise)]))


# ---- what RAS says ----

def plural(n, word="s"):
    return word if n > 1 else ""


def row_of(args):
    lost = [r for r in (args.lost, args.silent) if r >= 0]
    here = [r for r in range(args.ranks) if r not in lost]
    counts = [args.counts[r] for r in here]
    return here, counts, ("INCOMPLETE" if lost else "") + ("," if lost and len(set(counts)) > 1 else "") + ("MISMATCH" if len(set(counts)) > 1 else "")


def who(rank, pids):
    return f"GPU {rank} managed by process {pids[rank]} on node 10.0.0.1"


def text(args, pids):
    """NCCL 2.24, VERBOSE STATUS."""
    here, counts, errors = row_of(args)
    out = ["NCCL version 2.24.3 compiled with CUDA 12.4\nCUDA runtime version 12040, driver version 12080\n\n",
           "Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n",
           f"{1:7d}  {args.ranks:9d}  {1:11d}  {args.ranks:9d}  {args.ranks:7d}\n", "\nCommunicators...", " (0.00s)\n=============\n\n",
           "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n"
           "    #  in group  per comm  per node  per comm  in group\n",
           f"{0:5d}  {1:8d}  {1:8d}  {len(here):>8d}  {args.ranks:8d}  {len(here):8d}  {'RUNNING':>8s}  {errors or 'OK':>6s}\n", "\nErrors\n======\n\n"]
    if args.silent >= 0:
        out.append(f"INCOMPLETE\n  Missing communicator data from 1 job process\n  Process {pids[args.silent]} on node 10.0.0.1 managing GPU {args.silent}\n\n")
    if args.lost >= 0:
        out.append("DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n"
                   f"  Process {pids[args.lost]} on node 10.0.0.1 managing GPU {args.lost}\n\n")
    lost = sorted(r for r in (args.lost, args.silent) if r >= 0)
    if lost:
        out.append(f"#0-0 ({HASH:016x}) INCOMPLETE\n  Missing communicator data from {len(lost)} rank{plural(len(lost))}\n"
                   f"  The missing rank{plural(len(lost))}: {','.join(map(str, lost))}\n\n")
    out.append("Warnings\n========\n\n")
    if len(set(counts)) > 1:
        out.append(f"#0-0 ({HASH:016x}) MISMATCH\n  Communicator ranks have different collective operation counts\n")
        groups = [(count, [r for r in here if args.counts[r] == count]) for count in set(counts)]
        for count, ranks in sorted(groups, key=lambda group: (-len(group[1]), -group[0])):
            if len(ranks) > 1:
                out.append(f"  {len(ranks)} ranks have launched up to operation {count}\n")
            if len(ranks) == 1:
                out.append(f"  Rank {ranks[0]} has launched up to operation {count} -- {who(ranks[0], pids)}\n")
            elif len(ranks) < args.ranks * 0.5:
                out += [f"  Rank {r} -- {who(r, pids)}\n" for r in ranks]
        out.append("\n")
    return "".join(out)


def json_rank(args, pids, rank):
    return {"rank": rank, "host": "10.0.0.1", "pid": pids[rank], "cuda_dev": rank, "nvml_dev": rank,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False},
            "collective_counts": {name: args.counts[rank] if name == "AllReduce" else 3 for name in OPERATIONS}}


def json_text(args, pids):
    here, _, _ = row_of(args)
    missing = [{"rank": r, "host": "10.0.0.1", "pid": pids[r], "cuda_dev": r, "nvml_dev": r,
                "status": {"unresponsive": True, "considered_dead": r == args.lost}} for r in range(args.ranks) if r not in here]
    document = {"nccl_version": "2.29.2", "cuda_runtime_version": 12090, "cuda_driver_version": 13000,
                "timestamp": "2026-11-22 10:00:00", "communicators_count": 1,
                "communicators": [{"hash": hex(HASH), "secondary_hash": "0x1:0x2", "size": args.ranks, "ranks_count": len(here),
                                   "missing_ranks_count": len(missing), "ranks": [json_rank(args, pids, r) for r in here],
                                   "missing_ranks": missing}],
                "ras": {"collection_time_sec": 0.001, "timeouts_count": 0}}
    told = json.dumps(document, indent=2) + "\n"
    if args.form == "first-json":
        told = told.replace(',\n          "status": {\n            "unresponsive"', '\n          "status": {\n            "unresponsive"')
    return told


# ---- the dialogue ----

def say(text_or_bytes):
    os.write(2, text_or_bytes.encode())


def is_first():
    """Nobody has answered yet, in any rank."""
    try:
        os.close(os.open(os.environ["RAS_JOB_ANSWERED"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def answer(args, connection, told, seconds):
    told, first = told.encode(), is_first()
    if args.manner == "late":
        time.sleep(seconds)
    if args.manner == "slow":
        for i in range(len(told)):
            connection.send(told[i:i + 1])
            time.sleep(0.05)
    elif args.manner == "endless":
        while True:
            connection.sendall(b"  Rank 0 has launched up to operation 5 -- [process information not found]\n" * 1000)
    elif args.manner == "garbage" or args.manner == "worse" and not first:
        connection.sendall(b"{\n" + random.randbytes(100000))
    elif args.manner == "early" or args.manner == "cut" and not first:
        connection.sendall(told[:len(told) * 2 // 3])
    else:
        connection.sendall(told)


def talk(args, pids, connection, rank):
    form, timeout = "text", 5
    if args.manner == "mute":
        connection.recv(1000)
        time.sleep(600)
    with connection, connection.makefile("rb") as lines:
        for raw in lines:
            line = raw.decode("ascii").rstrip("\n")
            say(f"{rank} {line}\n")
            if args.manner == "other":
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            elif line.lower().startswith("client protocol "):
                connection.sendall(b"SERVER PROTOCOL 2\n")
            elif line.lower().startswith("timeout "):
                timeout = int(line.split()[1])
                connection.sendall(b"OK\n")
            elif line.lower() == "set format json" and args.form != "text":
                form = "json"
                connection.sendall(b"OK\n")
            elif line.lower() in ("status", "verbose status"):
                answer(args, connection, (json_text if form == "json" else text)(at_this_moment(args), pids), timeout)
                return
            else:
                connection.sendall(f"ERROR: Unknown command {line}\n".encode())


def converse(args, pids, connection, rank):
    try:
        talk(args, pids, connection, rank)
    except OSError:
        pass


def serve(args, pids, listener, rank):
    while args.manner != "deaf" and (args.manner, rank) != ("one-deaf", 0):
        connection, _ = listener.accept()
        threading.Thread(target=converse, args=(args, pids, connection, rank), daemon=True).start()
    time.sleep(600)


# ---- a rank ----

COLLECTIVE = "def all_reduce(nothing):\n    import os\n    os.read(nothing, 1)\n"


def save_metrics():
    time.sleep(600)


def listen(host, port):
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((host, port))
    listener.listen(100)
    return listener


def run_rank(args, rank):
    host, _, port = args.address.rpartition(":")
    listener = None if args.no_listener else listen(host.strip("[]"), int(port))
    print("listens", flush=True)
    pids = json.loads(sys.stdin.readline())
    if listener:
        threading.Thread(target=serve, args=(args, pids, listener, rank), daemon=True).start()
    names = {}
    exec(compile(COLLECTIVE, "/nowhere/torch/distributed/distributed_c10d.py", "exec"), names)  # pylint: disable=exec-used
    print("waits", flush=True)
    if args.counts[rank] < max(args.counts):
        save_metrics()
    else:
        names["all_reduce"](NOTHING[0])


# ---- the launcher ----

def free_port(host):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]


def enter_new_network():
    """With nothing but a loopback interface, which is up."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def launch(args):
    with tempfile.TemporaryDirectory() as args.directory:
        launch_in(args)


def launch_in(args):
    host, _, port = args.address.rpartition(":")
    if args.new_network:
        enter_new_network()
    port = int(port) or free_port(host.strip("[]"))
    argv = [sys.executable, os.path.realpath(__file__), *sys.argv[1:], "--address", f"{host}:{port}"]
    ranks = []
    for rank in range(args.ranks):
        env = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(args.ranks), TORCHELASTIC_RUN_ID="4711",
                   NCCL_RAS_ADDR=f"{host}:{port}", RAS_JOB_ANSWERED=os.path.join(args.directory, "answered"))
        ranks.append(subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        ranks[-1].stdout.readline()
    pids = [rank.pid for rank in ranks]
    for rank in ranks:
        rank.stdin.write((json.dumps(pids) + "\n").encode())
        rank.stdin.flush()
        rank.stdout.readline()
    time.sleep(0.1)
    print("READY " + json.dumps({"ranks": pids, "address": [host, port]}), flush=True)
    try:
        sys.stdin.read()
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def main():
    args = parse()
    if "RANK" not in os.environ:
        launch(args)
    else:
        run_rank(args, int(os.environ["RANK"]))


if __name__ == "__main__":
    main()
