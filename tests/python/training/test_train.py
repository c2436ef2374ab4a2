"""The training example as users start it: every launch style, every result it promises."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from processes import EXAMPLES, Command, Job, environment_ranks, held_port, python, run

TRAIN = EXAMPLES / "train.py"
LAUNCHED = Path(__file__).with_name("launched.py")


@dataclass(frozen=True)
class Style:
    """How a job of `ranks` is started; `commands(port)` are the shells' lines."""

    name: str
    ranks: int
    commands: object


def torchrun(*arguments, script: Path = LAUNCHED) -> Command:
    return Command([str(Path(sys.executable).with_name("torchrun")), *arguments, script])


def meeting_at(port: int, nodes: int) -> list[str]:
    return [
        f"--nnodes={nodes}",
        "--rdzv_id=job",
        "--rdzv_backend=c10d",
        f"--rdzv_endpoint=127.0.0.1:{port}",
    ]


def legacy_launch(*arguments) -> Command:
    return python("-m", "torch.distributed.launch", "--nproc_per_node=2", *arguments, LAUNCHED)


def by_node_rank(port: int) -> list[Command]:
    return [
        python(
            LAUNCHED,
            MASTER_ADDR="localhost",
            MASTER_PORT=port,
            WORLD_SIZE=4,
            WORKER_PER_NODE=2,
            NODE_RANK=node,
            LOCAL_RANK=local,
        )
        for node in range(2)
        for local in range(2)
    ]


def by_option(spelling: str, port: int) -> list[Command]:
    return [
        python(
            LAUNCHED,
            f"{spelling}={rank}",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=port,
            RANK=rank,
            WORLD_SIZE=2,
        )
        for rank in range(2)
    ]


def by_url(port: int) -> list[Command]:
    url = f"tcp://127.0.0.1:{port}"
    return [
        python(LAUNCHED, "--init_method", url, "--rank", str(rank), "--world_size", "2")
        for rank in range(2)
    ]


STYLES = [
    Style("torchrun", 2, lambda port: [torchrun("--standalone", "--nproc_per_node=2")]),
    Style("torchrun-4", 4, lambda port: [torchrun("--standalone", "--nproc_per_node=4")]),
    Style("rendezvous", 2, lambda port: [torchrun(*meeting_at(port, 1), "--nproc_per_node=2")]),
    Style("two-agents", 4, lambda port: 2 * [torchrun(*meeting_at(port, 2), "--nproc_per_node=2")]),
    Style("launch", 2, lambda port: [legacy_launch(f"--master_port={port}")]),
    Style("launch-env", 2, lambda port: [legacy_launch("--use-env", f"--master_port={port}")]),
    Style("local_rank", 2, lambda port: by_option("--local_rank", port)),
    Style("local-rank", 2, lambda port: by_option("--local-rank", port)),
    Style("environment-4", 4, lambda _: environment_ranks([LAUNCHED], 4, python)),
    Style("url", 2, by_url),
    Style("node-rank", 4, by_node_rank),
]


@pytest.fixture
def variables(backend, data_folder, tmp_path) -> dict[str, str]:
    """One short epoch."""
    return {
        "BACKEND": backend,
        "EPOCHS": "1",
        "LR": "0.1",
        "BATCH_SIZE": "128",
        "DATASETS_PATH": str(data_folder),
        "DATASETS": "digits",
        "WORKSPACE": str(tmp_path / "workspace"),
    }


def train(commands: list[Command], variables: dict[str, str], folder: Path) -> tuple[dict, str]:
    """Runs a job to its end; returns its result and all that it printed."""
    workspace = Path(variables["WORKSPACE"])
    for command in commands:
        command.environment.update(variables)
    output = run(commands, folder / "logs")
    return json.loads((workspace / "result.json").read_text()), output


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_launch_style(style, tmp_path, backend):
    commands = style.commands(held_port())
    for command in commands:
        command.environment["BACKEND"] = backend
    output = run(commands, tmp_path)
    per_node = 2 if style.name in ("two-agents", "node-rank") else style.ranks
    total = f"{style.ranks}, {sum(range(style.ranks))}"
    for rank in range(style.ranks):
        place = f"{backend} on cpu:{rank % per_node}"
        assert f"rank {rank} of {style.ranks}: {place}: {total}" in output


def test_plain_processes(variables, tmp_path, backend):
    result, output = train(environment_ranks([TRAIN], 2, python), variables, tmp_path)
    assert (result["ranks"], result["backend"]) == (2, backend)
    for rank in range(2):
        assert f"rank {rank} of 2: {backend} on cpu:{rank}" in output


def test_torchrun_and_data_loading_processes(variables, tmp_path, backend):
    command = torchrun("--standalone", "--nproc_per_node=2", script=TRAIN)
    command.argv += ["--loaders", "2"]
    alone, _ = train(environment_ranks([TRAIN], 2), variables, tmp_path)
    loaded, output = train([command], variables, tmp_path)
    assert loaded["weights"] == alone["weights"]
    for rank in range(2):
        assert f"rank {rank} of 2: {backend} on cpu:{rank}" in output


def test_own_data_set_is_written_without_datasets_path(variables, tmp_path):
    variables["DATASETS_PATH"] = ""
    train(environment_ranks([TRAIN], 2), variables, tmp_path)
    assert (tmp_path / "workspace" / "digits" / "train-images-idx3-ubyte").is_file()


@pytest.mark.slow  # the demo, which test_tools.py runs, shows the same to a reader
def test_accuracy_and_the_same_weights_as_gloo(variables, data_folder, tmp_path, backend):
    from compare import compare, largest_difference, weights

    folders = []
    for name in (backend, "gloo"):
        folders.append(tmp_path / name)
        variables |= {"BACKEND": name, "WORKSPACE": str(folders[-1])}
        variables |= {"EPOCHS": "8", "BATCH_SIZE": "32"}
        result, _ = train(environment_ranks([TRAIN], 2), variables, folders[-1])
        assert result["accuracy"] >= 0.97
    # Rounding alone: sums of two are the same in any order, so this is far below what 8 epochs
    # could make of one wrong gradient.
    assert largest_difference(weights(folders[0]), weights(folders[1])) < 1e-5
    table = compare(*folders)
    for word in (
        backend,
        "gloo",
        "held-out accuracy",
        "time per step",
        "difference of the weights",
    ):
        assert word in table


def test_checkpoint_loads_without_ddp(variables, tmp_path):
    import model

    train(environment_ranks([TRAIN], 2), variables, tmp_path)
    state = torch.load(Path(variables["WORKSPACE"]) / "checkpoint.pt", weights_only=True)
    model.resnet().load_state_dict(state["model"], strict=True)
    assert state["epoch"] == 1


def test_ranks_that_drift_apart_are_noticed(tmp_path):
    script = tmp_path / "drift.py"
    script.write_text(
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import torch, torch.distributed as dist, train\n"
        "dist.init_process_group('gloo')\n"
        "layer = torch.nn.Linear(2, 2)\n"
        "torch.nn.init.ones_(layer.weight), torch.nn.init.ones_(layer.bias)\n"
        "train.check_equal_weights(layer, 1, torch.device('cpu'))\n"
        "if dist.get_rank() == 1: layer.bias.data[0] = 1 + 2**-23\n"
        "try: train.check_equal_weights(layer, 2, torch.device('cpu'))\n"
        "except RuntimeError as error: print('noticed:', error)\n"
        "dist.barrier(); dist.destroy_process_group()\n"
    )
    output = run(environment_ranks([script, EXAMPLES], 3), tmp_path / "logs")
    assert output.count("noticed: after epoch 2 the weights of ranks [1] are not rank 0's") == 3


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "set RANK, or NODE_RANK, WORKER_PER_NODE and LOCAL_RANK"),
        ({"RANK": "0"}, "set WORLD_SIZE"),
    ],
)
def test_missing_rank_is_one_sentence(environment, sentence, tmp_path):
    with Job([python(LAUNCHED, **environment)], tmp_path) as job:
        assert job.wait() == [1]
        assert sentence in job.output()
        assert "Traceback" not in job.output()
