# SPDX-License-Identifier: Apache-2.0
"""A training job of three ranks that hangs, for trying vramtap triage on: a loader worker of rank 1 reads from a server of
samples that does not answer; rank 1 waits for its batch, and the others wait for rank 1 in all_reduce().

It starts its ranks itself, as torchrun would, and prints READY when all are where they stay.
"""
import os
import socket
import subprocess
import sys
import threading
import time

RANKS = 3


# ---- a rank ----

def fetch_sample(server, index):
    """What a file server, an object store or a data base would be asked."""
    with socket.create_connection(server) as connection:
        connection.sendall(f"{os.environ['RANK']} {index}\n".encode())
        return connection.recv(100)


class Samples:
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return float(fetch_sample(("127.0.0.1", int(os.environ["SERVER_PORT"])), index))


def train(batches, model):
    import torch
    for batch in batches:
        gradient = model.new_full((1024,), batch)
        torch.distributed.all_reduce(gradient.cpu())


def run_rank():
    import torch
    import torch.distributed
    from torch.utils.data import DataLoader
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    model = torch.zeros(8 << 20, device="cuda")
    train(DataLoader(Samples(), batch_size=None, num_workers=1), model)


# ---- the launcher, and a server of samples that forgets rank 1 after its third ----

def serve(server, forgotten):
    while True:
        connection, _ = server.accept()
        rank, index = connection.recv(100).split()
        if rank == b"1" and int(index) == 3:
            forgotten.append(connection)
        else:
            connection.sendall(b"0.5")
            connection.close()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def launch():
    server, forgotten = socket.create_server(("127.0.0.1", 0)), []
    threading.Thread(target=serve, args=[server, forgotten], daemon=True).start()
    common = dict(os.environ, WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                  MASTER_PORT=str(free_port()), SERVER_PORT=str(server.getsockname()[1]))
    ranks = [subprocess.Popen([sys.executable, __file__], env=dict(common, RANK=str(rank), LOCAL_RANK=str(rank)))
             for rank in range(RANKS)]
    while not forgotten:
        time.sleep(0.1)
    time.sleep(1)
    print("READY", os.getpid(), flush=True)
    for rank in ranks:
        rank.wait()


if __name__ == "__main__":
    run_rank() if "RANK" in os.environ else launch()
