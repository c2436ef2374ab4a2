"""The device of tests/ghost alone: what the tests of the bridge build on."""

import torch
from ghost_ranks import load_ghost, needs_ghost, on_host, run_ranks
from torch import nn

pytestmark = needs_ghost


def alone(body):
    """In a process of its own: a device is not for a process that forks."""
    return run_ranks(1, lambda rank, size: body(load_ghost(2)), group=False)[0]


def test_values_and_views():
    def body(ghost):
        x = torch.arange(12, dtype=torch.float32).to("ghost:1")
        assert x.device == torch.device("ghost:1")
        assert (x.view(3, 4).t().contiguous().cpu()[1] == torch.tensor([1.0, 5, 9])).all()
        assert (x[2:5] * 2).sum().item() == 18
        x[3:] = 0
        assert x.sum().item() == 3
        assert torch.accelerator.device_count() == 2

    alone(body)


def test_trains_as_the_cpu():
    def body(ghost):
        def trained(device):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in range(3):
                optimizer.zero_grad()
                model(torch.full((2, 4), step + 1.0, device=device)).pow(2).mean().backward()
                optimizer.step()
            return [parameter.detach().cpu() for parameter in model.parameters()]

        for there, here in zip(trained("ghost:0"), trained("cpu"), strict=True):
            torch.testing.assert_close(there, here)

    alone(body)


def test_streams_and_events():
    def body(ghost):
        x = torch.ones(1000, device="ghost:0")
        y = torch.zeros(1000, device="ghost:0")
        torch.accelerator.synchronize()
        side, event = torch.Stream("ghost:0"), torch.Event("ghost:0")
        ghost.close_gate()
        y.copy_(x)
        event.record()
        assert not event.query()
        assert on_host(y)[0] == 0  # another stream does not wait
        side.wait_event(event)
        ghost.open_gate()
        with side:
            assert y.cpu()[0] == 1
        event.synchronize()
        assert event.query()

    alone(body)


def test_memory_is_reused_as_by_cuda():
    def body(ghost):
        x = torch.ones(1000, device="ghost:0")
        torch.accelerator.synchronize()
        at = x.data_ptr()
        side = torch.Stream("ghost:0")
        with side:
            ghost.close_gate()
        x.record_stream(side)
        del x
        busy = torch.ones(1000, device="ghost:0")
        assert busy.data_ptr() != at
        ghost.open_gate()
        side.synchronize()
        free = torch.ones(1000, device="ghost:0")
        assert free.data_ptr() == at
        del free  # not recorded: at once
        assert torch.ones(1000, device="ghost:0").data_ptr() == at

    alone(body)
