"""A small line in SVG, for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

WIDTH, HEIGHT, MARGIN = 420, 220, 30


def svg(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], x_name: str, y_name: str) -> str:
    """`y` over `x`, both from zero; points without a figure are left out."""
    pairs = [(float(a), float(b)) for a, b in zip(x, y) if a == a and b == b]
    most_x = max((a for a, _ in pairs), default=1.0) or 1.0
    most_y = max((b for _, b in pairs), default=1.0) or 1.0

    def place(a: float, b: float) -> str:
        across = MARGIN + a / most_x * (WIDTH - 2 * MARGIN)
        up = HEIGHT - MARGIN - b / most_y * (HEIGHT - 2 * MARGIN)
        return f"{across:.1f},{up:.1f}"

    line = " ".join(place(a, b) for a, b in pairs)
    frame = f"M{MARGIN},{MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}"
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{y_name} over {x_name}">'
        f'<path d="{frame}" fill="none" stroke="currentColor"/>'
        f'<polyline points="{line}" fill="none" stroke="#0a6" stroke-width="2"/>'
        f'<text x="{MARGIN}" y="{MARGIN - 8}" font-size="12" fill="currentColor">{y_name} (to {most_y:.4g})</text>'
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" font-size="12" fill="currentColor">{x_name} (to {most_x:.4g})</text></svg>'
    )
