# SPDX-License-Identifier: Apache-2.0
"""pyprog_threads.py THREADS FRAMES: as many threads parked as deep in Python; "ready TID", then waits for standard input to
end. For measuring."""
import sys
import threading
import time


def deeper(n, here, gate):
    if n:
        return deeper(n - 1, here, gate)
    here.release()
    gate.acquire()
    return 0


def main():
    count, depth = int(sys.argv[1]), int(sys.argv[2])
    sys.setrecursionlimit(depth + 1000)
    if depth > 1000:
        threading.stack_size(512 << 20)  # until 3.10 each Python call is one of C too
    gate = threading.Lock()
    gate.acquire()
    here = threading.Semaphore(0)
    for _ in range(count):
        # threading's own three frames and this function's last one count too
        threading.Thread(target=deeper, args=(depth - 4, here, gate), daemon=True).start()
    for _ in range(count):
        here.acquire()
    time.sleep(0.1)
    print("ready %d" % threading.get_native_id(), flush=True)
    sys.stdin.read()


main()
