"""What numbers of each precision take in memory."""

from __future__ import annotations

WIDTH_BYTES: dict[str, float] = {
    **{"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0},
    **{"fp8": 1.0, "int8": 1.0, "fp4": 0.5},
}
