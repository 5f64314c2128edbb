# SPDX-License-Identifier: Apache-2.0
"""A PyTorch program with one thing that stands out (torch_alarms.py CASE), or with nothing that does. It says "ready", then
answers each line, a Python expression, with its value in JSON: what the case knows of itself is in the dict truth."""
import gc
import json
import sys

import torch
from torch import nn
from torch.utils import data as torch_data

DEVICE = "cuda"
MIB = 1 << 18  # elements of four bytes
N = 1024  # parameters are some MiB; batches are large enough for activations that count
truth = {}


def answer():
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(eval(line, globals())), flush=True)  # noqa: S307


def in_use():
    return torch.cuda.memory_allocated()


def big(mib=1):
    return torch.zeros(mib * MIB, device=DEVICE)


class Node:
    pass


class Net(nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        self.body = nn.Sequential(*(nn.Linear(N, N) for _ in range(layers)))
        self.head = nn.Linear(N, 4 * N)

    def forward(self, x):
        for layer in self.body:
            x = torch.relu(layer(x))
        return self.head(x)


class Stops(nn.Module):
    """Where a forward pass is looked at."""

    def forward(self, x):
        answer()
        sys.exit(0)


def freed(statement):
    before = in_use()
    exec(statement, globals())  # noqa: S102
    return before - in_use()


def batch(n=N):
    return torch.randn(n, N, device=DEVICE)


def bytes_of(tensors):
    return sum(t.untyped_storage().nbytes() for t in tensors)


def state_bytes(optimizer, parameters):
    return sum(v.untyped_storage().nbytes() for p in parameters for v in optimizer.state[p].values() if v.is_cuda)


def step(model, optimizer, x):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


# ---- what stands out ----

losses = []


def case_kept_losses():
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(6):
        step(model, optimizer, batch())
        losses.append(model(batch()).square().mean())
    truth.update(items=len(losses))
    answer()


def case_deep_losses():
    """Graphs of some thousand nodes, which all refer to the same parameters."""
    model = nn.Sequential(*(part for _ in range(1500) for part in (nn.Linear(32, 32), nn.ReLU()))).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        x = torch.randn(64, 32, device=DEVICE)
        model(x).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(model(x).mean())
    truth.update(count=4)
    answer()


def case_losses_to_come():
    """As many losses of the same parameters: backward() is still to come."""
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer, batch())
    losses.extend(model(batch()).square().mean() for _ in range(6))
    truth.update(items=len(losses))
    answer()


def case_outdated():
    """Outputs of one forward pass that backward() could use, but for a step in between."""
    model = Net(6).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    outputs, x = [], batch()
    for layer in model.body:
        x = torch.relu(layer(x))
        outputs.append(x.mean())
    x.square().mean().backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    del x
    answer()
    return outputs


def garbage():
    before = in_use()
    for _ in range(4):
        node = Node()
        node.me, node.tensor = node, big(8)
    del node
    truth["bytes"] = in_use() - before


def scrub():
    """The stack of a frame keeps what was there before, where nothing else has been since."""
    a = b = c = d = 0
    return max(a, b, c, d, a, b, c, d, a, b, c, d, min(a, b, c, d, a, b, c, d))


def case_garbage_off():
    gc.disable()
    garbage()
    scrub()
    answer()


def case_garbage_threshold():
    gc.set_threshold(0)
    garbage()
    scrub()
    answer()


def case_garbage_old():
    gc.collect()
    nodes = []
    for _ in range(4):
        node = Node()
        node.me, node.tensor = node, big(8)
        nodes.append(node)
    truth["bytes"] = sum(n.tensor.untyped_storage().nbytes() for n in nodes)
    gc.collect(1)
    gc.collect(1)
    gc.collect()
    del nodes, node
    answer()


def case_garbage_frozen():
    gc.disable()
    garbage()
    scrub()
    gc.freeze()
    gc.enable()
    answer()


def case_garbage_young():
    gc.collect()
    garbage()
    scrub()
    answer()


def fail(mib):
    lost = big(mib)
    raise ValueError(lost.shape)


def fail_deeper(mib):
    lost_too = big(4)
    fail(mib)
    return lost_too


def case_exception_last():
    try:
        fail_deeper(20)
    except ValueError as err:
        # As the interpreter does with an exception that it prints.
        sys.last_exc = sys.last_value = err
        sys.last_traceback = err.__traceback__
    truth.update(bytes=4 * 24 * MIB, part=4 * 24 * MIB, count=1)
    answer()


failures = []


def case_exceptions_in_list():
    for mib in (4, 32, 8):
        try:
            fail(mib)
        except ValueError as err:
            failures.append(err)
    truth.update(bytes=4 * 44 * MIB, part=4 * 32 * MIB, name="failures[1]")
    answer()


def case_exception_in_future():
    from concurrent import futures
    pool = futures.ThreadPoolExecutor(1)
    future = pool.submit(fail, 24)
    futures.wait([future])
    truth.update(bytes=4 * 24 * MIB)
    answer()


def case_exception_handled():
    truth.update(bytes=4 * 24 * MIB)
    try:
        fail(24)
    except ValueError as err:
        try:
            raise TypeError from err
        except TypeError:
            answer()


def case_lost_gradients():
    """Only the head is trained, but nobody has said so to the body."""
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.head.parameters())
    for _ in range(3):
        step(model, optimizer, batch(8))
    truth.update(bytes=bytes_of(p.grad for p in model.body.parameters()), count=len(list(model.body.parameters())))
    answer()


def case_kept_gradients():
    model = nn.ModuleList([Net(), Stops()]).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model[0], optimizer, batch(8))
    truth.update(bytes=bytes_of(p.grad for p in model.parameters()))
    model[1](batch(8))


def case_dataset():
    data_set = torch_data.TensorDataset(torch.zeros(N, 160 * N // 4, device=DEVICE), torch.zeros(N, 40 * N // 4, device=DEVICE))
    loader = torch_data.DataLoader(data_set, batch_size=8)
    truth.update(bytes=4 * 200 * MIB, batches=len(loader))
    answer()


def case_own_dataset():
    class Images(torch_data.Dataset):
        def __init__(self):
            self.images = [big() for _ in range(40)]
            self.names = {i: str(i) for i in range(40)}

        def __len__(self):
            return len(self.images)

        def __getitem__(self, i):
            return self.images[i]

    images = Images()
    truth.update(bytes=4 * 40 * MIB, items=len(images))
    answer()


def case_two_models():
    import copy
    model = Net().to(DEVICE)
    ema = torch.optim.swa_utils.AveragedModel(model)
    teacher = copy.deepcopy(model)
    truth.update(bytes=bytes_of(model.parameters()), same=len(list(ema.parameters())) == len(list(teacher.parameters())))
    answer()


def case_best_state():
    model = Net().to(DEVICE)
    state = model.state_dict()
    best_state = {k: v.clone() for k, v in state.items()}
    truth.update(bytes=bytes_of(best_state.values()))
    answer()


def case_frozen():
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer, batch(8))
    model.body.requires_grad_(False)
    optimizer.zero_grad()
    loss = model(batch(8)).square().mean()
    truth.update(bytes=state_bytes(optimizer, model.body.parameters()), count=len(list(model.body.parameters())))
    answer()
    return loss


def case_left_parameters():
    """A new model, and the optimizer of the old one."""
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer, batch(8))
    parameters = list(model.parameters())
    truth.update(bytes=bytes_of(parameters) + bytes_of(p.grad for p in parameters) + state_bytes(optimizer, parameters),
                 count=len(parameters))
    del parameters
    model = Net().to(DEVICE)
    gc.collect()
    answer()
    return model


# ---- healthy programs ----

def healthy_training():
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    history = []
    for _ in range(5):
        loss = step(model, optimizer, batch())
        history.append(loss.item())
    answer()


def healthy_detached_losses():
    model = Net().to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    history = [step(model, optimizer, batch()).detach() for _ in range(8)]
    logits = model(batch())
    answer()
    return history, logits


def healthy_accumulation():
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        losses = [model(batch(64)).square().mean() for _ in range(6)]
        torch.stack(losses).sum().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    losses = [model(batch()).square().mean() for _ in range(6)]
    answer()
    return losses


def healthy_branches():
    """Branches of one forward pass in a list, half way."""
    model = nn.ModuleList([Net() for _ in range(3)] + [Stops()]).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model[0], optimizer, batch(8))
    optimizer.zero_grad()
    outs = [branch(batch()) for branch in list(model)[:3] * 2]
    model[3](outs)


def healthy_ema():
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    ema = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(3):
        step(model, optimizer, batch(8))
        ema.update_parameters(model)
    answer()


def healthy_inference():
    model = Net().to(DEVICE).eval()
    with torch.inference_mode():
        outputs = [model(batch()) for _ in range(8)]
        answer()
    return outputs


def healthy_warm_cache():
    tensors = [big(16) for _ in range(8)]
    del tensors
    kept = big(2)
    answer()
    return kept


def healthy_loader():
    data_set = torch_data.TensorDataset(torch.zeros(4096, N))
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for number, (x,) in enumerate(torch_data.DataLoader(data_set, batch_size=256)):
        step(model, optimizer, x.to(DEVICE))
        if number == 3:
            answer()
            return


def healthy_amp():
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for number in range(3):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(batch()).float().square().mean()
        loss.backward()
        if number == 2:
            answer()
            return
        optimizer.step()
        optimizer.zero_grad()


def healthy_checkpointing():
    from torch.utils.checkpoint import checkpoint
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for number in range(3):
        x = batch().requires_grad_()
        for layer in model.body:
            x = checkpoint(layer, x, use_reentrant=False)
        loss = model.head(x).square().mean()
        if number == 2:
            answer()
            return
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def healthy_handled_exception():
    """An exception that was handled is gone."""
    model = Net().to(DEVICE)
    try:
        fail(24)
    except ValueError as err:
        text = str(err)
    with torch.no_grad():
        out = model(batch())
    answer()
    return text, out


def healthy_fine_tuning():
    """A frozen body, and an optimizer of the head."""
    model = Net().to(DEVICE)
    model.body.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.head.parameters())
    for _ in range(3):
        step(model, optimizer, batch())
    answer()


def healthy_gan():
    """Two models with an optimizer each; one's parameters are frozen while the other one is trained."""
    one, two = Net().to(DEVICE), Net(3).to(DEVICE)
    of_one, of_two = torch.optim.Adam(one.parameters()), torch.optim.Adam(two.parameters())
    step(one, of_one, batch(8))
    step(two, of_two, batch(8))
    two.requires_grad_(False)
    loss = two(one(batch())[:, :N]).square().mean()
    answer()
    return loss


def healthy_discriminators():
    """One training step for all scales: their outputs are in a list, and their graphs are kept for a second backward()."""
    model, scales = Net().to(DEVICE), nn.ModuleList(nn.Sequential(nn.Linear(N, N), nn.Tanh(), nn.Linear(N, N)) for _ in range(4))
    scales.to(DEVICE)
    of_model, of_scales = torch.optim.Adam(model.parameters()), torch.optim.Adam(scales.parameters())
    for _ in range(2):
        fake = model(batch())[:, :N]
        outputs = [scale(fake).mean() for scale in scales]
        sum(outputs).backward(retain_graph=True)
        of_scales.step()
        (-scales[0](fake).mean()).backward()
        of_model.step()
        of_model.zero_grad()
        of_scales.zero_grad()
    answer()
    return outputs


def healthy_evaluation():
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer, batch())
    optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        outputs = [model(batch()) for _ in range(6)]
    score = torch.stack([out.mean() for out in outputs])
    answer()
    return score


def healthy_adapters():
    """A frozen model with a trained part beside each of its layers."""
    model = Net().to(DEVICE).requires_grad_(False)
    adapters = nn.ModuleList(nn.Linear(N, N) for _ in model.body).to(DEVICE)
    optimizer = torch.optim.AdamW(adapters.parameters())
    for number in range(3):
        x = batch()
        for layer, adapter in zip(model.body, adapters):
            x = torch.relu(layer(x) + adapter(x))
        loss = x.square().mean()
        if number == 2:
            answer()
            return
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def healthy_rollout():
    """A policy's outputs are collected with their graphs, and used by one backward()."""
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    for number in range(2):
        outputs, rewards = [], []
        for _ in range(8):
            outputs.append(model(batch(256)).mean(1))
            rewards.append(outputs[-1].detach())
        if number == 1:
            answer()
            return
        sum((out * reward).mean() for out, reward in zip(outputs, rewards)).backward()
        optimizer.step()
        optimizer.zero_grad()


def healthy_recurrent():
    """State goes from step to step without its graph."""
    cell = nn.GRUCell(N, N).to(DEVICE)
    optimizer = torch.optim.AdamW(cell.parameters())
    state = batch(256)
    for number in range(4):
        states = []
        for _ in range(6):
            state = cell(batch(256), state)
            states.append(state)
        if number == 3:
            answer()
            return
        torch.stack(states).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        state = state.detach()


def healthy_resumed():
    """The state that a run goes on from is still there."""
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    step(model, optimizer, batch(8))
    saved = {"model": {k: v.clone() for k, v in model.state_dict().items()}, "step": 1}
    model.load_state_dict(saved["model"])
    step(model, optimizer, batch(8))
    answer()
    return saved


def healthy_by_hand():
    """Some parameters are updated by an optimizer, others by the program."""
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.head.parameters())
    for _ in range(2):
        model(batch(8)).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for p in model.body.parameters():
                p -= 0.01 * p.grad
    del p
    answer()


def healthy_running():
    """It trains all the time, and keeps the losses of the last steps as numbers."""
    model = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    print("ready", flush=True)
    history = []
    while True:
        losses = [model(batch()).square().mean() for _ in range(4)]
        torch.stack(losses).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        history = history[-9:] + [sum(loss.item() for loss in losses)]


def healthy_image():
    """A tensor that is optimized itself is of no module."""
    image = big(24).requires_grad_()
    optimizer = torch.optim.Adam([image])
    image.square().mean().backward()
    optimizer.step()
    answer()


globals()[sys.argv[1]]()
