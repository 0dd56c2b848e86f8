"""The same all-reduce by PyTorch's gloo: gloo.py RANKS BYTES:REPEATS...  Prints "bytes microseconds" lines."""
import os
import socket
import sys
import time


def rank_main(rank, ranks, port, jobs):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    for size, repeats in jobs:
        data = torch.zeros(size // 4)
        times = []
        for i in range(-repeats // 10 - 2, repeats):
            begin = time.perf_counter()
            dist.all_reduce(data)
            if i >= 0:
                times.append(time.perf_counter() - begin)
        if rank == 0:
            for seconds in times:
                print(size, round(seconds * 1e6, 3))
    sys.stdout.flush()
    dist.destroy_process_group()


def main():
    ranks = int(sys.argv[1])
    jobs = [tuple(map(int, job.split(":"))) for job in sys.argv[2:]]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(1, ranks):
        pid = os.fork()
        if pid == 0:
            rank_main(rank, ranks, port, jobs)
            os._exit(0)
        children.append(pid)
    rank_main(0, ranks, port, jobs)
    bad = [pid for pid in children if os.waitpid(pid, 0)[1] != 0]
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
