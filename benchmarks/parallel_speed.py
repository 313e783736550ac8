"""An epoch of training in one process and in two, on two cores: `python -m benchmarks parallel [--quick]`.

    mlp      100,000 tasks of 512 numbers, two hidden layers of 512, batches of 512
    cnn      10,000 images 3 x 32 x 32, the network of `CNN()`, batches of 256
    small    100,000 tasks of 64 numbers, one hidden layer of 128, batches of 64: too little work to share

All with `CrowdLayer` on two answers per task by 1,000 workers: one process with one thread and with two, then two
processes of one thread each. Seconds are those of the faster of two epochs, after one that is not counted; CPU seconds
are per epoch, over all processes. Other work on the machine affects seconds more than CPU seconds; the load is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
import torch

import crowdwise as cw

EPOCHS = 3
SHAPES = {"mlp": (100_000, (512,), 512), "cnn": (10_000, (3, 32, 32), 256), "small": (100_000, (64,), 64)}
NETWORKS = {"mlp": cw.MLP((512, 512)), "cnn": cw.CNN(), "small": cw.MLP(128)}
WAYS = {"one process": (1, 1), "one process, two threads": (1, 2), "two processes": (2, 1)}  # processes, threads


def measure(name: str, share: int) -> None:
    """Train in this process, alone or as one of a group. The first prints seconds and CPU seconds per epoch."""
    n_tasks, shape, batch_size = SHAPES[name]
    n_tasks //= share
    answers = cw.simulate.simulate(n_tasks, n_workers=1000, n_classes=10, answers_per_task=2)
    X = np.random.default_rng(0).standard_normal((n_tasks, *shape), np.float32)
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    if size > 1:
        torch.distributed.init_process_group("gloo")
    clock = []
    cw.CrowdLayer(network=NETWORKS[name], epochs=EPOCHS, batch_size=batch_size).fit(
        X, answers, callback=lambda record: clock.append((record["seconds"], time.process_time(), record["loss"]))
    )
    spent = torch.tensor([clock[-1][1] - clock[0][1]]) / (EPOCHS - 1)
    if size > 1:
        torch.distributed.all_reduce(spent)
    if rank == 0:
        print(json.dumps({"seconds": min(s for s, _, _ in clock[1:]), "cpu": float(spent), "loss": clock[-1][2]}))


def run_group(name: str, share: int, processes: int, threads: int) -> dict[str, float]:
    """Return what `measure` prints, run in this many processes."""
    command = [sys.executable, __file__, name, str(share)]
    if processes > 1:
        command[1:1] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print a table of all networks and numbers of processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tasks")
    share = 10 if parser.parse_args().quick else 1
    print("| network | way | seconds | CPU seconds | load | loss |\n| --- | --- | --- | --- | --- | --- |")
    for each in SHAPES:
        for way, (processes, threads) in WAYS.items():
            figures = run_group(each, share, processes, threads)
            cells = (
                f"{figures['seconds']:.2f} | {figures['cpu']:.2f} | {os.getloadavg()[0]:.0f} | {figures['loss']:.6f}"
            )
            print(f"| {each} | {way} | {cells} |", flush=True)


if __name__ == "__main__":  # one process of a group
    measure(sys.argv[1], int(sys.argv[2]))
