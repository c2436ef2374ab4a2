"""torch-bridge/examples/cluster: what it starts is what torchrun and ringwood take."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from processes import EXAMPLES, PATIENCE_S, held_port
from ringwood_command import BINARY, environment, run
from torch.distributed.run import get_args_parser

CLUSTER = EXAMPLES / "cluster"
SBATCH = CLUSTER / "slurm.sbatch"
MANIFEST = CLUSTER / "kubernetes.yaml"


def commands(script: str) -> list[list[str]]:
    """Those that srun starts, without what the shell does after them."""
    lines = script.replace("\\\n", " ").splitlines()
    started = [re.split(r" \|\| | && ", line)[0] for line in lines if line.startswith("srun ")]
    return [shlex.split(line)[1:] for line in started]


def documents() -> list[dict]:
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all(MANIFEST.read_text()))


def test_the_script_is_a_script():
    assert subprocess.run(["bash", "-n", SBATCH]).returncode == 0
    assert os.access(SBATCH, os.X_OK)
    options = re.findall(r"^#SBATCH (--[\w-]+)=\S+$", SBATCH.read_text(), re.MULTILINE)
    assert len(options) == SBATCH.read_text().count("#SBATCH ") == 5


def test_the_script_starts_what_there_is(tmp_path):
    doctor, torchrun = commands(SBATCH.read_text())
    (tmp_path / "lines").write_text(shlex.join(doctor) + "\n")
    assert run("man", "--check-lines", str(tmp_path / "lines")).returncode == 0
    assert torchrun[0] == "torchrun"
    words = [word.replace("$SLURM_NNODES", "2").replace("$@", "train.py") for word in torchrun[1:]]
    parsed = get_args_parser().parse_args(words)
    assert (parsed.nnodes, parsed.nproc_per_node, parsed.rdzv_backend) == ("2", "2", "c10d")
    assert parsed.training_script == "train.py"


def programs(folder: Path) -> Path:
    """An environment, and what stands for Slurm: one node, which is this machine."""
    place = folder / "environment" / "bin"
    place.mkdir(parents=True)
    scripts = {
        "srun": 'exec env SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 "$@"',
        "scontrol": 'echo "$3"',
        "torchrun": f'exec "{sys.executable}" -m torch.distributed.run "$@"',
        # Of another machine's findings the example is independent.
        "ringwood": f'"{BINARY}" "$@" >doctor.txt; test $? -lt 3 && exit 1',
    }
    for name, script in scripts.items():
        (place / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / name).chmod(0o755)
    return place.parent


def test_the_script_runs(tmp_path):
    job = held_port() % 10000
    slurm = {"SLURM_JOB_ID": str(job), "SLURM_NNODES": "1", "SLURM_JOB_NODELIST": "127.0.0.1"}
    ran = subprocess.run(
        [SBATCH, EXAMPLES / "hello.py"],
        cwd=tmp_path,
        env=environment(**slurm, ENVIRONMENT=str(programs(tmp_path)), OMP_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = sorted(re.findall(r"rank \d of 2 has \[3\.0, 30\.0\]", ran.stdout))
    assert told == [f"rank {rank} of 2 has [3.0, 30.0]" for rank in (0, 1)]
    assert "1 host" in (tmp_path / "doctor.txt").read_text()
    assert not [*tmp_path.glob("*.key")], "the key is left"


def test_the_manifest_fits_together():
    service, job = documents()
    assert (service["kind"], job["kind"]) == ("Service", "Job")
    assert service["spec"]["clusterIP"] == "None"
    spec = job["spec"]
    pod = spec["template"]["spec"]
    assert spec["completionMode"] == "Indexed"
    assert spec["completions"] == spec["parallelism"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()
    (container,) = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}
    assert mounted["shm"] == "/dev/shm"
    key = next(v["secret"] for v in pod["volumes"] if v["name"] == "key")
    assert key["defaultMode"] & 0o77 == 0
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert values["RINGWOOD_KEY_FILE"] == mounted["key"] + "/key"


def test_the_manifest_starts_what_there_is():
    _, job = documents()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["torchrun"]
    words = [word.replace("$(NODE_RANK)", "1") for word in container["args"]]
    parsed = get_args_parser().parse_args(words)
    assert parsed.nnodes == str(job["spec"]["completions"])
    # The pod of index 0, by the name that the Service gives it.
    assert parsed.master_addr == f"{job['metadata']['name']}-0.{job['metadata']['name']}"
    assert (parsed.node_rank, parsed.nproc_per_node, parsed.training_script) == (1, "2", "train.py")


@pytest.mark.parametrize("file", [SBATCH, MANIFEST], ids=lambda file: file.name)
def test_the_knobs_are_knobs(file):
    known = set(re.findall(r"^(RINGWOOD_\w+)", run("env").stdout, re.MULTILINE))
    assert set(re.findall(r"RINGWOOD_[A-Z_]+", file.read_text())) <= known
