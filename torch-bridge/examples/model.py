"""A small ResNet for grey images of any size."""

import torch
from torch import nn

GROUPS = 8


class Block(nn.Module):
    """Two 3x3 convolutions beside a shortcut. GroupNorm, because it has no statistics of its own:
    what a rank computes depends on its weights and its batch alone."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.GroupNorm(GROUPS, outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1, bias=False),
            nn.GroupNorm(GROUPS, outputs),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet(widths: tuple[int, ...] = (32, 64, 96), classes: int = 10) -> nn.Module:
    """One block per width; every block but the first halves the image."""
    layers: list[nn.Module] = [
        nn.Conv2d(1, widths[0], 3, padding=1, bias=False),
        nn.GroupNorm(GROUPS, widths[0]),
        nn.ReLU(),
    ]
    for inputs, outputs in zip((widths[0], *widths), widths, strict=False):
        layers.append(Block(inputs, outputs, stride=1 if len(layers) == 3 else 2))
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes)]
    return nn.Sequential(*layers)
