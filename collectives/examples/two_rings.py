"""An all-reduce of two rings at once: one to the next rank, one to the next but one."""

n = 5  # ranks; each ring carries n pieces


def ring(rank, stride, first):
    place = rank * pow(stride, -1, n) % n  # of this rank in the ring
    for i in range(2 * (n - 1)):
        receive = "recv_reduce" if i < n - 1 else "recv"
        yield f"send {(rank + stride) % n} [{first + (place - i) % n}]"
        yield f"{receive} {(rank - stride) % n} [{first + (place - i - 1) % n}]"


for rank in range(n):
    print(f"schedule rank {rank} of {n} chunks {2 * n}")
    for steps in zip(ring(rank, 1, 0), ring(rank, 2, n), strict=True):
        print(*steps, sep="\n")
