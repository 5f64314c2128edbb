# SPDX-License-Identifier: Apache-2.0
"""A healthy PyTorch program (torch_healthy.py NAME): nothing is wrong with any of them, so no report may say so, whenever it looks.

It says "READY" after its first steps and goes on until it is killed, or until standard input is closed. What is on purpose here
(gradients that are accumulated, a copy of the weights, a full cache) looks like the trouble of examples/oom.
"""
import os
import sys
import threading
import time

import torch
from torch import nn
from torch.utils import data as torch_data

WIDTH = 1024


class Net(nn.Module):
    def __init__(self, layers=6):
        super().__init__()
        self.body = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(layers))
        self.head = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        for layer in self.body:
            x = torch.relu(layer(x))
        return self.head(x)


def batch(n=2048):
    return torch.randn(n, WIDTH, device="cuda")


def loss_of(model, x):
    return model(x).square().mean()


def go_on(step):
    """step(i) again and again."""
    for i in range(1 << 60):
        step(i)
        if i == 11:
            torch.cuda.synchronize()
            print("READY", flush=True)
        time.sleep(0.002)


def training():
    model, history = Net().cuda(), []
    optimizer = torch.optim.AdamW(model.parameters())

    def step(_):
        optimizer.zero_grad()
        loss = loss_of(model, batch())
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    go_on(step)


def inference_server():
    """Requests of all sizes come in threads; each has its cache of keys and values, and the last answers are kept."""
    model, answers = Net().cuda().eval(), []
    lock = threading.Lock()

    def serve(number):
        while True:
            with torch.inference_mode():
                keys = [batch(64 * (1 + number)) for _ in range(4)]
                out = sum(model(k).sum() for k in keys)
            with lock:
                answers.append(out)
                del answers[:-32]
            time.sleep(0.005)
    for number in range(3):
        threading.Thread(target=serve, args=(number,), daemon=True).start()
    go_on(lambda i: time.sleep(0.02))


def warm_cache():
    """A peak at first, which the cache is kept for: PyTorch has nearly all of the device, and uses little."""
    model = Net().cuda()
    share = int(torch.cuda.mem_get_info()[0] * 0.995) // 8 // (2 << 20) * (2 << 20)
    peak = [torch.empty(share, dtype=torch.uint8, device="cuda") for _ in range(8)]
    del peak

    def step(_):
        with torch.no_grad():
            model(batch(256))
    go_on(step)


def cuda_graphs():
    """A captured step: its memory is in a private pool."""
    model, x = Net().cuda(), batch()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = model(x)

    def step(_):
        x.copy_(batch())
        graph.replay()
        return out.sum()
    go_on(step)


def accumulation():
    """Gradients of eight small batches are added up on purpose; the losses of a step are in a list until its end."""
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(i):
        losses = [loss_of(model, batch(512)) for _ in range(2)]
        (sum(losses) / 16).backward()
        if i % 8 == 7:
            optimizer.step()
            optimizer.zero_grad()
    go_on(step)


def kept_gradients():
    """As above, and zero_grad() writes zeros instead of dropping them, as captured graphs and some engines need it."""
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(i):
        loss_of(model, batch(512)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
    go_on(step)


def ema():
    """An average of the weights, and the teacher that it came from: copies on purpose."""
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))
    best = {name: value.clone() for name, value in model.state_dict().items()}

    def step(i):
        optimizer.zero_grad()
        loss_of(model, batch()).backward()
        optimizer.step()
        average.update_parameters(model)
        if i % 20 == 0:
            best.update({name: value.clone() for name, value in model.state_dict().items()})
    go_on(step)


def data_loader():
    """Workers, pinned memory, and copies that the program does not wait for."""
    model = Net().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    samples = torch_data.TensorDataset(torch.zeros(8192, WIDTH))
    loader = torch_data.DataLoader(samples, batch_size=256, num_workers=2, pin_memory=True, persistent_workers=True)
    batches = iter(())

    def step(_):
        nonlocal batches
        x = next(batches, None)
        if x is None:
            batches = iter(loader)
            x = next(batches)
        optimizer.zero_grad()
        loss_of(model, x[0].to("cuda", non_blocking=True)).backward()
        optimizer.step()
    go_on(step)


def streams():
    """Batches are made on a stream of their own, and handed over with record_stream()."""
    model, side = Net().cuda(), torch.cuda.Stream()

    def step(_):
        with torch.cuda.stream(side):
            x = batch()
        torch.cuda.current_stream().wait_stream(side)
        x.record_stream(torch.cuda.current_stream())
        with torch.no_grad():
            model(x)
    go_on(step)


def evaluation():
    """Outputs of a whole pass are collected, without graphs, and scored at its end."""
    model, outputs = Net().cuda().eval(), []

    def step(i):
        with torch.no_grad():
            outputs.append(model(batch(512)))
            if i % 16 == 15:
                torch.cat(outputs).mean()
                outputs.clear()
    go_on(step)


def mixed_precision():
    model, scaler = Net().cuda(), torch.amp.GradScaler("cuda")
    optimizer = torch.optim.AdamW(model.parameters())

    def step(_):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(batch()).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    go_on(step)


def end_with_input():
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=end_with_input, daemon=True).start()
    globals()[sys.argv[1]]()
