"""A decoder with random weights, its static KV cache, and its steps."""

import time

import torch
import torch.nn.functional as F

ALIGN = 64  # elements: each weight begins on a line of the cache


def attention(q, k, v, causal):
    """Attention of q over all of k and v, by PyTorch's fused kernel where it has one."""
    fused = getattr(F, "scaled_dot_product_attention", None)
    if fused is not None:
        return fused(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal:
        n = q.shape[-2]
        hidden = torch.ones(n, n, dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1) @ v


class Decoder:
    """The weights lie in one tensor, so that they move as a whole; a KV cache is a view of
    another, of the shape that a cell needs."""

    def __init__(self, shape, device, dtype, cache_tokens, seed=0):
        self.shape, self.device, self.dtype = shape, device, dtype
        names = self._sizes()
        total = sum(-(-n // ALIGN) * ALIGN for _, n, _ in names)
        self.weights = torch.empty(total, dtype=dtype, device=device)
        generator = torch.Generator(device=device).manual_seed(seed)
        self.weights.normal_(0, 0.02, generator=generator)
        self.at, offset = {}, 0
        for name, n, size in names:
            self.at[name] = self.weights[offset : offset + n].view(size)
            offset += -(-n // ALIGN) * ALIGN
        for name, view in self.at.items():
            if name.endswith("norm"):
                view[0].fill_(1)
        self.cache_tokens = cache_tokens
        # Of random numbers: kernels may be quicker on zeros.
        self.cache = torch.empty(shape.layers, 2, cache_tokens * shape.hidden, dtype=dtype, device=device)
        self.cache.normal_(0, 1, generator=generator)

    def _sizes(self):
        s = self.shape
        h, f = s.hidden, s.feed_forward
        sizes = [("embedding", (s.vocabulary, h)), ("positions", (s.positions, h)), ("norm", (2, h))]
        for i in range(s.layers):
            sizes += [
                (f"{i}.attention_norm", (2, h)), (f"{i}.qkv", (3 * h, h)), (f"{i}.qkv_bias", (3 * h,)),
                (f"{i}.out", (h, h)), (f"{i}.out_bias", (h,)), (f"{i}.feed_norm", (2, h)),
                (f"{i}.up", (f, h)), (f"{i}.up_bias", (f,)), (f"{i}.down", (h, f)), (f"{i}.down_bias", (h,)),
            ]
        count = lambda size: size[0] * (size[1] if len(size) > 1 else 1)
        return [(name, count(size), size) for name, size in sizes]

    def weight_bytes(self):
        return self.weights.numel() * self.weights.element_size()

    def kv_bytes_per_token(self):
        return self.shape.kv_elements() * self.weights.element_size()

    def cache_bytes(self):
        return self.cache.numel() * self.cache.element_size()

    def _norm(self, x, name):
        w = self.at[name]
        return F.layer_norm(x, (self.shape.hidden,), w[0], w[1])

    def _keys(self, layer, batch, length):
        """Keys and values of a layer: a contiguous cache of just this shape."""
        s = self.shape
        n = batch * length * s.hidden
        view = lambda which: self.cache[layer, which, :n].view(batch, s.heads, length, s.width)
        return view(0), view(1)

    def forward(self, tokens, length):
        """Runs tokens [batch, n], the last of `length`, and returns the logits of the last.
        All n are new: n is 1 in decode, and `length` in prefill."""
        s = self.shape
        batch, n = tokens.shape
        x = F.embedding(tokens, self.at["embedding"]) + self.at["positions"][length - n : length]
        for i in range(s.layers):
            qkv = F.linear(self._norm(x, f"{i}.attention_norm"), self.at[f"{i}.qkv"], self.at[f"{i}.qkv_bias"])
            q, k, v = (t.transpose(1, 2) for t in qkv.view(batch, n, 3, s.heads, s.width).unbind(2))
            keys, values = self._keys(i, batch, length)
            keys[:, :, length - n :].copy_(k)
            values[:, :, length - n :].copy_(v)
            a = attention(q, keys, values, causal=n > 1)
            a = a.transpose(1, 2).reshape(batch, n, s.hidden)
            x = x + F.linear(a, self.at[f"{i}.out"], self.at[f"{i}.out_bias"])
            up = F.relu(F.linear(self._norm(x, f"{i}.feed_norm"), self.at[f"{i}.up"], self.at[f"{i}.up_bias"]))
            x = x + F.linear(up, self.at[f"{i}.down"], self.at[f"{i}.down_bias"])
        return F.linear(self._norm(x[:, -1], "norm"), self.at["embedding"])


class Step:
    """One step of a cell, ready to run: its kernels launched as one CUDA graph, as serving
    engines do in decode, or one by one."""

    def __init__(self, decoder, cell, graph):
        self.cuda = decoder.device.type == "cuda"
        self.length = cell.tokens if cell.prefill else cell.context
        n = cell.tokens if cell.prefill else 1
        if cell.cached() > decoder.cache_tokens:
            raise MemoryError(f"needs a KV cache of {cell.cached()} tokens, and there is room for {decoder.cache_tokens}")
        self.tokens = torch.randint(0, decoder.shape.vocabulary, (cell.batch, n), device=decoder.device)
        self.run = lambda: decoder.forward(self.tokens, self.length).argmax(-1)
        self.graph = None
        if self.cuda:
            self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self._warm()
            if graph:
                self.graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(self.graph):
                    self.next = self.run()
        else:
            self.run()

    def _warm(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                self.run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()

    def launch(self):
        if self.graph is None:
            self.next = self.run()
        else:
            self.graph.replay()

    def time(self):
        """Runs a step until its tokens are in host memory, as an engine needs them before the
        next. Returns the step's time and the device's part of it, in ms."""
        start = time.perf_counter()
        if not self.cuda:
            self.launch()
            device = time.perf_counter() - start
            self.next.tolist()
            return 1e3 * (time.perf_counter() - start), 1e3 * device
        self.begin.record()
        self.launch()
        self.end.record()
        self.next.tolist()
        step = 1e3 * (time.perf_counter() - start)
        return step, self.begin.elapsed_time(self.end)
