"""`ringwood simulate`: what is refused, in one sentence."""

import pytest
from ringwood_command import run
from test_simulate import LEAVES, SMALL


@pytest.mark.parametrize(
    "arguments, why",
    [
        (["nonesuch", "1M"], "unknown collective 'nonesuch'"),
        (["all_reduce", "1Q"], 'BYTES "1Q" is not a size'),
        (["all_reduce"], "simulate all_reduce 64M; or --replay"),
        (["all_reduce", "1M", "--seed", "9" * 20], "number from 0 to 9223372036854775807"),
        (["all_reduce", "1M", "-a", "nonesuch"], "nonesuch"),
        (["all_reduce", "1M", "--hosts", "4096", "--ranks-per-host", "8"], "more than 16384 ranks"),
        (["all_reduce", "1M", *SMALL, "--slow", "host3"], "is not of the form host7/rail1=0.5"),
        (["all_reduce", "1M", *SMALL, "--slow", "host3=2"], "a fraction from 0.000001 to 1"),
        (["all_reduce", "1M", *SMALL, "--slow-rank", "rank5=1e-300"], "from 0.000001 to 1"),
        (["all_reduce", "1M", *SMALL, "--slow-link", "host3=0.5"], "form host2-host3=0.25"),
        (["all_reduce", "1M", *SMALL, "--slow-link", "host3-host8=0.5"], "the last one is host7"),
        (
            ["all_reduce", "1M", "--like", "/nonesuch"],
            "--like /nonesuch: it cannot be read: No such file",
        ),
        (["all_reduce", "1M", *SMALL, "--slow", "host8=0.5"], "the last one is host7"),
        (["all_reduce", "1M", *SMALL, "--dead", "host3/rail1"], "the last one is rail0"),
        (["all_reduce", "1M", *SMALL, "--dead", "host3/rail0"], "has no rail left"),
        (["all_reduce", "1M", *SMALL, "--late", "rank3=5"], "is not of the form 5ms"),
        (["all_reduce", "1M", *SMALL, "--late", "rank32=5ms"], "the last one is rank31"),
        (["all_reduce", "1M", *SMALL, "--slow-rank", "5=0.1"], "is not of the form rank5=0.1"),
        (
            ["all_reduce", "1M", *SMALL, "--dead-uplink", "leaf0/0"],
            "there is no leaf0: say with --leaf",
        ),
        (
            ["all_reduce", "1M", *SMALL, "--dead-uplink", "pod1/0"],
            "there is no pod1: say with --pod",
        ),
        (["all_reduce", "1M", *SMALL, "--uplinks", "2"], "--uplinks needs --leaf"),
        (
            ["all_reduce", "1M", *SMALL, "--leaf", "4", "--oversubscription", "3"],
            "--oversubscription 3 of leaves of 4 hosts would need 1.33333 uplinks: say --uplinks",
        ),
        (["all_reduce", "1M", *SMALL, "--pod", "2"], "--pod needs --leaf"),
        (["all_reduce", "1M", *SMALL, "--queue-pairs", "2"], "--queue-pairs needs --leaf"),
        (
            ["all_reduce", "1M", "--hosts", "2", "--leaf", "16384", "--pod", "16384"],
            "268435456 uplinks of 1 pod on 1 rail are more than the 2 million that are simulated",
        ),
        (
            ["all_reduce", "1M", *SMALL, "--leaf", "2", "--pod-uplinks", "2"],
            "--pod-uplinks needs --pod",
        ),
        (
            [
                "all_reduce",
                "1M",
                *SMALL,
                "--leaf",
                "2",
                "--pod",
                "2",
                "--pod-oversubscription",
                "3",
            ],
            "--pod-oversubscription 3 of pods of 2 leaves would need 1.33333 uplinks: say --pod-up",
        ),
        (
            ["all_reduce", "1M", *SMALL, "--leaf", "2", "--pod", "2", "--dead-uplink", "pod0/4"],
            "among 2 pods, 1 rail, and 4 uplinks of a pod on each",
        ),
        (
            ["all_reduce", "1M", *SMALL, "--leaf", "4", "--oversubscription", "8"],
            "would need 0.5 uplinks",
        ),
        (
            ["all_reduce", "1M", *SMALL, "--slow", "host3=0.5", "host3/rail0/in=0.25"],
            '--slow "host3/rail0/in=0.25": host3 has another fault already',
        ),
        (
            ["all_reduce", "1M", *SMALL, "--slow", "host3=0.5", "--dead", "host3/rail0"],
            "host3 has another fault already",
        ),
        (
            ["all_reduce", "1M", *SMALL, "--slow-link", "host3-host4=0.5", "host3-host4=0.25"],
            "host3-host4 has another fault already",
        ),
        (
            ["all_reduce", "1M", *SMALL, "--late", "rank3=5ms", "rank3=5ms"],
            "rank3 has another fault already",
        ),
        (
            ["all_reduce", "1M", *SMALL, *LEAVES, "--dead-uplink", "leaf0/0-1"],
            "no uplink of rail0 is alive",
        ),
        (["all_reduce", "1M", "--parameters", "/nonesuch"], "neither host, default, nor a file"),
        (["all_reduce", "1M", *SMALL, "--trace", "/nonesuch/t"], "cannot be written"),
        (["all_reduce", "1M", *SMALL, "--svg", "s.svg"], "add --scale"),
        (["all_reduce", "1M", "--scale", "8-16"], "is not of the form 8..16384"),
        (
            ["all_reduce", "1M", "--scale", "8..16", "--ranks-per-host", "5"],
            "begin with a multiple",
        ),
        (["all_reduce", "1M", "--island-rate", "fast"], "is not of the form 150G"),
    ],
)
def test_bad_input_is_one_sentence(arguments, why):
    done = run("simulate", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ringwood: ") and why in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
