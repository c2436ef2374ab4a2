"""A library that spoils what arrives over sockets, for LD_PRELOAD."""

import shutil
import subprocess
from pathlib import Path

import pytest
from processes import PATIENCE_S

# One element in the middle of the first long message that each rank receives, or of all of them.
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
ssize_t recvmsg(int fd, struct msghdr* message, int flags) {
  static ssize_t (*real)(int, struct msghdr*, int);
  static int done;
  if (!real) real = (ssize_t(*)(int, struct msghdr*, int))dlsym(RTLD_NEXT, "recvmsg");
  const ssize_t got = real(fd, message, flags);
  if (got < 2048 || done) return got;  // longer than any greeting
  done = ONLY_ONE;
  for (size_t n = 0; n < 4; ++n) {  // the exponent, wherever it is: low bits are rounded away
    size_t at = (size_t)got / 2 + n, part = 0;
    while (at >= message->msg_iov[part].iov_len) at -= message->msg_iov[part++].iov_len;
    ((unsigned char*)message->msg_iov[part].iov_base)[at] ^= 0x40;
  }
  return got;
}
"""


def corrupting_library(folder: Path, only_one: bool = True) -> str:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build the library that spoils what arrives")
    (folder / "corrupt.c").write_text(SOURCE)
    library = folder / "corrupt.so"
    build = [compiler, "-shared", "-fPIC", f"-DONLY_ONE={only_one:d}", "-o", str(library)]
    build += [str(folder / "corrupt.c"), "-ldl"]
    subprocess.run(build, check=True, timeout=PATIENCE_S)
    return str(library)
