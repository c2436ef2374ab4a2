"""For meson.build: the folder of this Python's torch and its version; status 1 if there is none.

Torch is located without being imported, which would cost seconds and load the plug-ins that are
installed.
"""

import importlib.util
import os
import re
import sys

spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit(1)
folder = os.path.dirname(spec.origin)
with open(os.path.join(folder, "version.py")) as file:
    print(folder, re.search(r"__version__ = '([^']+)'", file.read())[1], sep="\n")
