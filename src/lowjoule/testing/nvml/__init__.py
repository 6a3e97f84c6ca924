"""A library with NVML's ABI over boards that a test describes, for `pynvml` and its users.

    boards = [Board(uuid="GPU-a", limit_w=(100.0, 400.0), tick_s=0.1)]
    with FakeNvml(boards, folder=tmp_path, virtual=True) as fake, fake.loaded():
        pynvml.nvmlInit()                      # in this process: the boards above
        fake[0].load([(0.0, 60.0), (1.0, 300.0)])
        fake.advance(2.0)
        fake[0].true_energy_j(0.0, 2.0)        # integrated by other code than the library's

Child processes get `fake.environment()`. The state lies in one file that all of them map, and
outlives them. The library is compiled with the system's C compiler: `compiler()` says whether
there is one. Linux only.
"""

from lowjoule.testing.nvml.audit import Write
from lowjoule.testing.nvml.board import Board
from lowjoule.testing.nvml.build import CompilerError, compile_library, compiler
from lowjoule.testing.nvml.fake import FakeNvml
from lowjoule.testing.nvml.handle import BoardState, FakeBoard
from lowjoule.testing.nvml.layout import FUNCTIONS, SETTERS

__all__ = [
    "FUNCTIONS",
    "SETTERS",
    "Board",
    "BoardState",
    "CompilerError",
    "FakeBoard",
    "FakeNvml",
    "Write",
    "compile_library",
    "compiler",
]
