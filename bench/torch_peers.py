"""All-reduces in torch that are no backend of torch.distributed: those of inference engines, over
the shared memory of one host. Their ops are called directly, without the engine.

`PEERS[name](folder)` loads the op from where `bench/peers --install-peers` has put it, before the
ranks are forked, and gives `join(rank, ranks)`, which each rank calls once within a process group
of gloo. That gives the function that adds up a tensor, in place. Loading alone, as a test:

    python bench/torch_peers.py vllm FOLDER/vllm
"""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist

SHARED_MEMORY = Path("/dev/shm")
AllReduce = Callable[[torch.Tensor], None]


def vllm(folder: str) -> Callable[[int, int], AllReduce]:
    if not torch.cpu._is_avx512_supported():
        raise RuntimeError("vLLM's shared-memory all-reduce needs AVX-512")
    # The choice that vLLM makes itself.
    library = "_C" if torch.cpu._is_avx512_bf16_supported() else "_C_AVX512"
    torch.ops.load_library(os.path.join(folder, "vllm", f"{library}.abi3.so"))
    ops = torch.ops._C

    def join(rank: int, ranks: int) -> AllReduce:
        name = f"bench-vllm-{os.getppid()}"
        handle = ops.init_shm_manager(name, ranks, rank, torch.get_num_threads())
        dist.barrier()
        ops.join_shm_manager(handle, name)
        dist.barrier()
        (SHARED_MEMORY / f"{name}_{rank}").unlink()
        return partial(ops.shm_allreduce.default, handle)

    return join


def deepspeed(folder: str) -> Callable[[int, int], AllReduce]:
    (packages,) = Path(folder).glob("lib/python*/site-packages")
    sys.path.append(str(packages))
    os.environ["DS_ACCELERATOR"] = "cpu"
    # ninja, which calls the compiler, lies beside the interpreter.
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
    from deepspeed.accelerator import get_accelerator

    module = get_accelerator().create_op_builder("ShareMemCommBuilder").load(verbose=False)

    def join(rank: int, ranks: int) -> AllReduce:
        address, port = "bench", str(os.getppid())  # no more than parts of a file's name
        os.environ.update(LOCAL_SIZE=str(ranks), MASTER_ADDR=address, MASTER_PORT=port)
        module.initialize(ranks, rank)
        dist.barrier()
        file = f"deepspeed_allreduce_buffer_{os.getuid()}_{address}_{port}_{rank}"
        (SHARED_MEMORY / file).unlink()
        return torch.ops.deepspeed.inference_all_reduce_.default

    return join


PEERS = {"vllm": vllm, "deepspeed": deepspeed}

if __name__ == "__main__":
    PEERS[sys.argv[1]](sys.argv[2])
