"""An animation drawn frame by frame: figures in, one GIF out, without a video encoder."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from experiments.harness.experiment import Gif

__all__ = ["gif"]


def gif(frames: Iterable[Figure], *, seconds: float = 0.2, last_seconds: float = 2.0) -> Gif:
    """Return an endless animation of the frames.

    Parameters
    ----------
    frames : iterable of Figure
        Of one size. A generator keeps no more than one figure alive.
    seconds, last_seconds : float
        How long each frame, and the last one, is shown; GIF counts in hundredths of a second.

    Raises
    ------
    ValueError
        If there is no frame, a duration is not positive, or the frames differ in size.
    """
    if min(seconds, last_seconds) <= 0:
        raise ValueError(f"seconds and last_seconds must be positive, got {seconds}, {last_seconds}")
    images = [_raster(figure) for figure in frames]
    if not images:
        raise ValueError("frames must hold at least one figure, got none")
    if len(sizes := {image.size for image in images}) > 1:
        raise ValueError(f"frames must have one size, got {sorted(sizes)} pixels")
    durations = [round(1000 * seconds)] * (len(images) - 1) + [round(1000 * last_seconds)]
    buffer = io.BytesIO()
    images[0].save(buffer, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return Gif(buffer.getvalue())


def _raster(figure: Figure) -> Image.Image:
    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(90)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]
    return Image.fromarray(np.ascontiguousarray(pixels)).quantize(colors=128)
