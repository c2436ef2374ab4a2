"""What a person sees meanwhile: one line that changes on a terminal, else whole lines only."""

import shutil
import sys


def show(text: str, end: str = "\n") -> None:
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns - 1
        print("\r\033[K" + (text[:width] if end == "" else text), end=end, flush=True)
    elif end:
        print(text, flush=True)
