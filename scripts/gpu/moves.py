"""Weights on the move: from disk, from host memory, to it and back."""

import time

import torch

import files


def fingerprint(decoder):
    """What the weights sum up to, to see whether they came back whole."""
    return [float(part.float().abs().sum()) for part in decoder.weights.split(1 << 26)]


def bytes_of(tensor):
    return tensor.view(torch.uint8)


def storage_of(tensor):
    return tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage().untyped()


def timed(worker, work):
    """How long work takes in ms, until the device has done it."""
    worker.synchronize()
    start = time.perf_counter()
    work()
    worker.synchronize()
    return 1e3 * (time.perf_counter() - start)


def host(worker, repeats, until):
    """Copies the weights from host memory, pinned and not, and puts the model to sleep and
    wakes it: its weights go to pinned host memory, their device memory is freed, and back."""
    weights, rows, notes = worker.decoder.weights, [], []
    cuda = worker.device.type == "cuda"
    size = worker.decoder.weight_bytes()
    room = files.available_memory()
    n = weights.numel() if room is None or size < 0.6 * room else int(0.6 * room / size * weights.numel())
    part, moved = weights[:n], n * weights.element_size()
    for source in ("pinned", "pageable") if cuda else ("pageable",):
        if time.monotonic() > until:
            notes.append(f"no loads from {source} memory: out of time")
            break
        begin = time.perf_counter()
        kept = torch.empty(n, dtype=weights.dtype, pin_memory=source == "pinned")
        kept.copy_(part)  # and so all pages are there
        worker.synchronize()
        allocate = 1e3 * (time.perf_counter() - begin)
        for repeat in range(repeats):
            if time.monotonic() > until:
                notes.append(f"loads from {source} memory stopped after {repeat}: out of time")
                break
            ms = timed(worker, lambda: part.copy_(kept, non_blocking=True))
            rows.append({"kind": "load", "from": source, "bytes": moved, "load_ms": ms, "allocate_ms": allocate, "repeat": repeat})
        if source == "pinned" or not cuda:
            if n < weights.numel():
                notes.append("no sleep: host memory has no room for all weights")
            else:
                rows += sleeps(worker, kept, repeats, until)
        del kept
    return {"rows": rows, "notes": notes, "whole": fingerprint(worker.decoder) == worker.fingerprint}


def sleeps(worker, kept, repeats, until):
    """Sleep and wake. Views keep their place in the storage, which is freed and filled again;
    a graph captured before would have lost its addresses."""
    weights, rows = worker.decoder.weights, []
    size = worker.decoder.weight_bytes()
    cuda = worker.device.type == "cuda"
    storage = storage_of(weights)

    def sleep():
        kept.copy_(weights, non_blocking=True)
        worker.synchronize()
        storage.resize_(0)
        if cuda:
            torch.cuda.empty_cache()

    def wake():
        storage.resize_(size)
        weights.copy_(kept, non_blocking=True)

    for repeat in range(repeats):
        if time.monotonic() > until:
            break
        free = free_bytes(worker)
        down = timed(worker, sleep)
        freed = None if free is None else free_bytes(worker) - free
        rows.append({"kind": "sleep", "bytes": size, "sleep_ms": down, "pinned": cuda, "freed_bytes": freed, "repeat": repeat})
        rows.append({"kind": "wake", "bytes": size, "wake_ms": timed(worker, wake), "pinned": cuda, "repeat": repeat})
    return rows


def free_bytes(worker):
    return torch.cuda.mem_get_info()[0] if worker.device.type == "cuda" else None


def disk(worker, path, chunk, most, write_until, until):
    """Writes the weights to a file, has the system forget it, and reads it back: by direct
    reads where the file system has them, and once more from the page cache."""
    flat = bytes_of(worker.decoder.weights)
    rows, notes = [], []
    staging = Staging(worker, chunk)
    begin = time.perf_counter()
    written = write(worker, path, flat, staging, most, write_until)
    rows.append({"kind": "write", "bytes": written, "write_ms": 1e3 * (time.perf_counter() - begin)})
    if written == 0:
        return {"rows": rows, "notes": ["nothing could be written in time"], "whole": True}
    for cold in (True, False):
        if time.monotonic() > until:
            notes.append("no load from the page cache: out of time")
            break
        opened = files.open_cold(path) if cold else files.open_warm(path)
        try:
            if not cold and opened.cache == "warm":  # so that it is
                read(worker, opened, flat, staging, written)
            ms = timed(worker, lambda: read(worker, opened, flat, staging, written))
        finally:
            opened.close()
        rows.append({"kind": "load", "from": "disk", "cache": opened.cache, "bytes": written, "load_ms": ms, "repeat": 0})
    return {"rows": rows, "notes": notes, "whole": fingerprint(worker.decoder) == worker.fingerprint}


class Staging:
    """Two buffers in host memory, pinned on an accelerator, on whole pages as direct reads
    want them: one is read into while the other is copied to the device."""

    def __init__(self, worker, chunk):
        self.chunk, self.buffers, self.events = chunk, [], [None, None]
        for _ in range(2):
            raw = torch.empty(chunk + files.PAGE, dtype=torch.uint8, pin_memory=worker.device.type == "cuda")
            self.buffers.append(raw[-raw.data_ptr() % files.PAGE :][:chunk])
        self.views = [files.view(b.data_ptr(), chunk) for b in self.buffers]

    def wait(self, which):
        if self.events[which] is not None:
            self.events[which].synchronize()

    def copied(self, which, cuda):
        if cuda:
            self.events[which] = torch.cuda.Event()
            self.events[which].record()


def write(worker, path, flat, staging, most, until):
    """Writes the weights' first bytes, at most so many and until then, and flushes them."""
    written = 0
    with files.Writer(path) as out:
        while written < min(most, flat.numel()) and time.monotonic() < until:
            n = min(staging.chunk, flat.numel() - written, most - written)
            staging.buffers[0][:n].copy_(flat[written : written + n])
            worker.synchronize()
            out.write(staging.views[0][:n])
            out.flush()  # piece by piece: what the system holds back would come all at the end
            written += n
    return written


def read(worker, opened, flat, staging, size):
    """Reads the file to the device, one buffer ahead."""
    at, which = 0, 0
    while at < size:
        staging.wait(which)
        n = opened.read(staging.views[which], at, size)
        if n <= 0:
            raise OSError(f"the file ended after {at} of {size} bytes")
        flat[at : at + n].copy_(staging.buffers[which][:n], non_blocking=True)
        staging.copied(which, worker.device.type == "cuda")
        at, which = at + n, 1 - which
