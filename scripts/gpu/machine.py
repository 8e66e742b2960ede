"""The machine that is measured, as far as it tells. Nothing here starts work on the device."""

import os
import platform
import shutil
import subprocess
import time


def run(*command, stdin=None):
    """What a command prints, or "" if it fails or hangs."""
    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def field(path, key, separator):
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                name, found, value = line.partition(separator)
                if found and name.strip() == key:
                    return value.strip().strip('"')
    except OSError:
        pass
    return ""


def described(device, torch, dtype):
    """A row on the machine."""
    memory = field("/proc/meminfo", "MemTotal", ":").split()
    row = {
        "version": 1,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": device,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cpu": field("/proc/cpuinfo", "model name", ":") or platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": 1024 * int(memory[0]) if memory else None,
        "system": (field("/etc/os-release", "PRETTY_NAME", "=") or platform.system()) + ", " + platform.platform(),
        "dtype": dtype,
        "graphs": device == "cuda",
    }
    if device == "cuda":
        row.update(accelerator(torch))
    return row


def accelerator(torch):
    asked = "name,driver_version,memory.total,compute_mode,clocks.max.sm,power.limit,mig.mode.current"
    line = run("nvidia-smi", "--query-gpu=" + asked, "--format=csv,noheader").splitlines()
    values = dict(zip(asked.split(","), [v.strip() for v in line[0].split(",")])) if line else {}
    return {
        "gpu": values.get("name"),
        "gpus_seen": len(line) or None,
        "driver": values.get("driver_version"),
        "compute_mode": values.get("compute_mode"),
        "clock_limit": values.get("clocks.max.sm"),
        "power_limit": values.get("power.limit"),
        "mig": values.get("mig.mode.current"),
        "cuda": torch.version.cuda or getattr(torch.version, "hip", None),
        "mps": mps(),
    }


def mps():
    """Reports whether processes share the device by NVIDIA's multi-process service, which
    takes the place of time slicing."""
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")
    return os.path.exists(os.path.join(folder, "control"))
