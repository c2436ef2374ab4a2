"""The short examples, each run by the command that its docstring gives."""

import ast
import re
import shlex
import sys
from pathlib import Path

import pytest
from processes import EXAMPLES, Command, environment_ranks, run

# What test_train*.py are about.
PROGRAM = {"train", "model", "digits", "compare"}
LOSS = re.compile(r"^(?:epoch|step) (\d): loss ([0-9.]+)$", re.MULTILINE)


def documented(name: str) -> list[str]:
    """The words of the command in the docstring."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text()))
    (command,) = re.findall(r"^ +(torchrun .*)$", text, re.MULTILINE)
    return shlex.split(command)


def printed(name: str, folder: Path, *, backend: str = "ringwood", ranks: int = 0) -> str:
    """What the example prints: by its command; with another number of ranks, or with another
    backend, as a user would change it, in the one word, by plain processes."""
    torchrun, option, count, path = documented(name)
    assert (torchrun, option, path) == ("torchrun", "--nproc-per-node", f"{name}.py")
    source = (EXAMPLES / path).read_text()
    script = folder / f"{backend}-{ranks}-{path}"
    script.write_text(source.replace('group("ringwood")', f'group("{backend}")'))
    assert backend == "ringwood" or script.read_text() != source
    if ranks or backend != "ringwood":
        commands = environment_ranks([script], ranks or int(count))
    else:
        # --standalone: whatever else runs here may have torchrun's usual port.
        program = Path(sys.executable).with_name(torchrun)
        commands = [Command([program, "--standalone", option, count, script])]
    return run(commands, folder / f"logs-{backend}-{ranks}")


def losses(output: str) -> list[float]:
    found = LOSS.findall(output)
    assert [int(number) for number, _ in found] == list(range(len(found)))
    return [float(loss) for _, loss in found]


def test_every_example_is_run():
    names = {file.stem for file in EXAMPLES.glob("*.py")}
    assert names - PROGRAM == {"hello", "ddp", "fsdp2", "zero_copy", "reproducible"}


def test_hello(tmp_path):
    output = printed("hello", tmp_path)
    for rank in (0, 1):
        assert f"rank {rank} of 2 has [3.0, 30.0]" in output


def test_data_parallel_as_with_gloo(tmp_path):
    output = printed("ddp", tmp_path)
    assert "equal weights on 2 ranks: True" in output
    assert len(losses(output)) == 5
    assert losses(output)[-1] < 0.05 * losses(output)[0]
    # Sums of two are the same in any order.
    assert losses(output) == losses(printed("ddp", tmp_path, backend="gloo"))


@pytest.mark.parametrize("ranks", [2, 4])
def test_fully_sharded_as_with_gloo(ranks, tmp_path):
    output = printed("fsdp2", tmp_path, ranks=0 if ranks == 2 else ranks)
    assert f"each of {ranks} ranks keeps {267280 // ranks:,} of 267,280 parameters" in output
    assert len(losses(output)) == 10
    assert losses(output)[-1] < 0.3 * losses(output)[0]
    with_gloo = losses(printed("fsdp2", tmp_path, ranks=ranks, backend="gloo"))
    assert losses(output) == pytest.approx(with_gloo, abs=2e-4)


def test_zero_copy_says_what_it_gains(tmp_path):
    output = printed("zero_copy", tmp_path)
    told = re.findall(r"^(\S+) +(\d+) us(?:   ([0-9.]+) times as fast)?$", output, re.MULTILINE)
    assert [name for name, *_ in told] == ["torch.empty", "ringwood.empty", "share_large_tensors"]
    ordinary, *shared = [float(time) for _, time, _ in told]
    for (_, _, gain), time in zip(told[1:], shared, strict=True):
        assert float(gain) == pytest.approx(ordinary / time, rel=0.02)


def test_reproducible(tmp_path):
    output = printed("reproducible", tmp_path)
    rows = re.findall(r"^(\w+(?: \w+)?) +([0-9a-f]{16})  ([0-9a-f]{16})$", output, re.MULTILINE)
    assert [name for name, *_ in rows] == ["one host", "two hosts", "one_shot", "rank_order"]
    assert len({same for *_, same in rows}) == 1
    different = len({default for _, default, _ in rows})
    assert different > 1
    assert re.search(rf"^different sums +{different} +1$", output, re.MULTILINE)
