# SPDX-License-Identifier: Apache-2.0
"""Programs as people run them, which know what their tensors are (tests/targets/owners_planted.py).

usage: owners_target.py MODE [STATE [RANK STORE]]

  plain, gpt2 STATE       a training step with AdamW; STATE: forward, loss, backward, step or between. gpt2 is that of transformers.
                          run: it goes on and on, and the truth is what stays
  ddp, fsdp, fsdp1 STATE  the same as two ranks; plain, and from FSDP's second and first kind
  graph                   a CUDA graph that was captured
  compile STATE           torch.compile(mode="reduce-overhead"), which captures CUDA graphs
  generate                transformers' generate() with its cache of keys and values, in the middle
  lightning               Lightning's Trainer with two workers that load, in the middle of the third batch
  lora STATE              a fine-tuning by peft

All models are small, random, and made from a configuration. Says "ready" when the state is reached, or "skip" and why; on a line of
standard input writes the truth to the file of that name."""
import itertools
import os
import queue
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "targets"))
import owners_planted as planted  # noqa: E402
import torch  # noqa: E402
from owners_planted import DEVICE, expect  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

MODE, STATE, RANK, STORE = [*sys.argv[1:], *["", "loss", "0", ""][len(sys.argv) - 1:]]
WORLD = 2
VOCABULARY, LENGTH, BATCH, WIDTH, LAYERS = 4096, 128, 4, 256, 4
STEPS_BEFORE = 2


class Layer(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH, dtype=torch.bool)))

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2)
                             for part in self.qkv(self.first_norm(x)).split(width, 2))
        scores = (query @ key.transpose(-2, -1)) / width ** 0.5
        weights = functional.softmax(scores.masked_fill(~self.mask, -1e9), -1)
        x = x + self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second_norm(x))


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(Layer(WIDTH) for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.token.weight  # tied

    def forward(self, tokens):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=LENGTH, n_embd=WIDTH, n_layer=LAYERS, n_head=4,
                                      use_cache=False))


def logits_of(out):
    return out if isinstance(out, torch.Tensor) else out.logits


OPTIMIZER = [None]
NAMES = [r"(?:model|net)(?:\.module|\._orig_mod)*"]  # what the global variables are called


def list_training():
    planted.list_module(model, *NAMES, optimizer=(OPTIMIZER[0], r".*(?:optimizer|OPTIMIZER)\w*(?:\[0\])?"))
    list_sharded()


def list_sharded():
    """What FSDP keeps beside the modules. Its first kind has one parameter for several, with attributes; its second kind exchanges
    the modules' parameters for whole ones while these are in use."""
    known = planted.known_addresses()
    for part in model.modules():
        flat = getattr(getattr(part, "_handle", None), "flat_param", None)
        for name, value in vars(flat).items() if flat is not None else ():
            if planted.memory_of(value):
                expect(value, "attribute of a flat parameter", ("parameter", "gradient"), r".+\.%s" % name, facts=False)
    for group in OPTIMIZER[0].param_groups if OPTIMIZER[0] else ():
        for parameter in group["params"]:
            memory = planted.memory_of(parameter)
            if not memory or memory[0] in known:
                continue
            expect(parameter, "part of a parameter", "parameter", r".*(?:_sharded_param_data|sharded_param|param_groups).*", facts=False)
            if planted.memory_of(parameter.grad):
                expect(parameter.grad, "gradient of a part", "gradient", r".+\.grad.*", facts=False)
            for key, value in OPTIMIZER[0].state.get(parameter, {}).items():
                if planted.memory_of(value):
                    expect(value, "state of a part", "optimizer", r".*(?:optimizer|OPTIMIZER).*\.state\[.+\]\['%s'\].*" % key, facts=False)


def serve(*listers):
    planted.serve(list_training, *listers, planted.list_running, planted.list_graph_pools, planted.list_workspaces)


def stop_in(state, *_):
    if STATE == state and STEP[0] == STEPS_BEFORE:
        serve()


STEP = [0]


def train_step(net, tokens):
    logits = logits_of(net(tokens))
    loss = functional.cross_entropy(logits.view(-1, VOCABULARY), tokens.view(-1))
    stop_in("loss")
    optimizer.zero_grad()
    loss.backward()
    stop_in("after_backward")
    optimizer.step()
    return loss.detach()


def batches():
    return expect(torch.randint(0, VOCABULARY, (16, BATCH, LENGTH), device=DEVICE), "data set", ("python", "input", "frame"),
                  r"data.*", facts=False)


def layers_of(module):
    """The list of a model's layers, however deep it is in wrappers."""
    return next(part for part in module.modules() if isinstance(part, nn.ModuleList) and len(part) == LAYERS)


def run(net):
    """Goes on until it is asked, between two steps."""
    asked = queue.SimpleQueue()
    threading.Thread(target=lambda: [asked.put(line.strip()) for line in sys.stdin], daemon=True).start()
    print("ready", flush=True)
    for step in itertools.count():
        train_step(net, data[step % len(data)])
        if not asked.empty():
            optimizer.zero_grad()
            planted.tell(asked.get(), list_training)
            print("ok", flush=True)


def train(net):
    """Some steps, then the one that stops."""
    if MODE != "compile":  # which would compile hooks, too
        layer = layers_of(net)[LAYERS // 2]
        layer.register_forward_pre_hook(lambda *args: stop_in("forward"))
        layer.register_full_backward_pre_hook(lambda *args: stop_in("backward"))
    optimizer.register_step_pre_hook(lambda *args: stop_in("step"))
    history = []
    for step in range(STEPS_BEFORE + 1):
        STEP[0] = step
        history.append(train_step(net, data[step]))
    if STATE == "run":
        run(net)
    stop_in("between")
    raise SystemExit(f"there is no state {STATE}")


def join():
    if DEVICE == "cuda" and torch.cuda.device_count() > 1:
        torch.cuda.set_device(int(RANK))
    backend = os.environ.get("OWNERS_BACKEND", "nccl" if torch.cuda.device_count() > 1 else "gloo")
    torch.distributed.init_process_group(backend, init_method="file://" + STORE, rank=int(RANK), world_size=WORLD)


def data_parallel():
    """The buckets are found by a hook that does what DDP does without one."""
    found = {}

    def reduce(state, bucket):
        found[bucket.index()] = bucket.buffer().untyped_storage().data_ptr(), bucket.buffer().untyped_storage().nbytes()
        future = torch.distributed.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0].div_(WORLD))

    # A simulated device computes nothing, so DDP would find different models there, and build buckets by what it reads.
    no_data = "OWNERS_NO_DATA" in os.environ
    if no_data:
        nn.parallel.distributed._verify_param_shape_across_processes = lambda *args: None  # noqa: SLF001
    net = nn.parallel.DistributedDataParallel(model, find_unused_parameters=no_data)
    net.register_comm_hook(None, reduce)

    def list_buckets():
        for address, size in found.values():
            planted.expect_block(address, size, "bucket of DDP", ["communication"],
                                 r".*(?:[Bb]ucket|Reducer|DistributedDataParallel|DDP).*")
    return net, list_buckets


def fully_sharded():
    from torch.distributed.fsdp import fully_shard
    for layer in model.layers:
        fully_shard(layer)
    return fully_shard(model)


def fully_sharded_first():
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    NAMES[0] = r"(?:model|net)"
    return FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({Layer}), use_orig_params=True)


def capture():
    static_in = torch.ones(1 << 20, device=DEVICE)
    graph = torch.cuda.CUDAGraph()
    for _ in range(2):
        (static_in * 2).sum()
    with torch.cuda.graph(graph):
        between = static_in * 2
        static_out = (between + 1) * 3
        del between
    graph.replay()
    variables = {"static_in": static_in, "static_out": static_out}

    def lister():
        for name, tensor in variables.items():
            expect(tensor, f"{name} of a CUDA graph", ("frame", "python", "graph_pool"), r".*%s.*" % name)
    planted.serve(lister, planted.list_graph_pools)


def generate():
    from transformers import LlamaConfig, LlamaForCausalLM, StoppingCriteria, StoppingCriteriaList
    global model
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=4 * WIDTH,
                                         num_hidden_layers=LAYERS, num_attention_heads=4)).to(DEVICE).eval()

    def list_cache():
        caches = {id(value): value for _, _, value in planted.running() if type(value).__module__ == "transformers.cache_utils"}
        for value in (one for _, _, v in planted.running() if isinstance(v, dict) for one in v.values()):
            if type(value).__module__ == "transformers.cache_utils":
                caches[id(value)] = value
        for cache in caches.values():
            pairs = [(layer.keys, layer.values) for layer in cache.layers] if hasattr(cache, "layers") else \
                list(zip(cache.key_cache, cache.value_cache))
            for number, (keys, values) in enumerate(pairs):
                if planted.memory_of(keys):
                    expect(keys, "keys in the cache", "cache", r".*(layers\[%d\]\.keys|key_cache\[%d\]).*" % (number, number))
                if planted.memory_of(values):
                    expect(values, "values in the cache", "cache", r".*(layers\[%d\]\.values|value_cache\[%d\]).*" % (number, number))

    class Stop(StoppingCriteria):
        def __call__(self, tokens, scores, **kwargs):
            if tokens.shape[1] > 64:
                serve(list_cache)
            return torch.zeros(tokens.shape[0], dtype=torch.bool, device=tokens.device)

    prompt = torch.randint(0, VOCABULARY, (8, 32), device=DEVICE)
    model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=64, do_sample=False, pad_token_id=0, eos_token_id=None,
                   stopping_criteria=StoppingCriteriaList([Stop()]))


def lightning():
    try:
        import lightning as pl
    except ImportError:
        import pytorch_lightning as pl
    global model

    class Task(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = Plain()

        def training_step(self, batch, index):
            tokens, = batch
            logits = self.net(tokens)
            return functional.cross_entropy(logits.view(-1, VOCABULARY), tokens.view(-1))

        def configure_optimizers(self):
            OPTIMIZER[0] = torch.optim.AdamW(self.parameters())
            return OPTIMIZER[0]

        def on_before_optimizer_step(self, *args):
            STEP[0] += 1
            if STEP[0] == 3:
                serve()

    model = Task()
    NAMES[0] = r"model"
    tokens = torch.utils.data.TensorDataset(torch.randint(0, VOCABULARY, (64, LENGTH)))
    loader = torch.utils.data.DataLoader(tokens, batch_size=BATCH, num_workers=2, pin_memory=True)
    pl.Trainer(max_steps=10, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
               enable_model_summary=False).fit(model, loader)


def lora():
    from peft import LoraConfig, get_peft_model
    return get_peft_model(gpt2(), LoraConfig(r=8, target_modules=["c_attn"], fan_in_fan_out=True, task_type="CAUSAL_LM"))


OTHERS = {"graph": capture, "generate": generate, "lightning": lightning}
MODELS = {"gpt2": gpt2, "lora": lora}

try:
    if MODE in OTHERS:
        OTHERS[MODE]()
        raise SystemExit("the state was not reached")
    if MODE in ("ddp", "fsdp", "fsdp1"):
        join()
    torch.manual_seed(int(RANK))
    model = MODELS.get(MODE, Plain)().to(DEVICE)
    net, more = model, []
    if MODE == "ddp":
        net, list_buckets = data_parallel()
        more.append(list_buckets)
    elif MODE == "fsdp":
        net = fully_sharded()
    elif MODE == "fsdp1":
        net = model = fully_sharded_first()
    elif MODE == "compile":
        net = torch.compile(model, mode="reduce-overhead")
    optimizer = OPTIMIZER[0] = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    data = batches()
except ImportError as err:
    print("skip", err, flush=True)
    raise SystemExit(0) from None
if more:
    plain_serve = serve

    def serve(*listers):
        plain_serve(*more, *listers)
train(net)
