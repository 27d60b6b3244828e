"""How many tokens an image, a video or a sound becomes (scheduling §12.1)."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, TypeVar

from epp.framework.parsed_request import Media
from epp.plugins.producers.image_size import Size, image_size
from epp.plugins.producers.media_parameters import Estimate, Frames, Resolution, VideoEstimate

if TYPE_CHECKING:
    from epp.framework.headers import Headers

DURATION_HEADER = "x-llm-d-video-duration-seconds"
RESOLUTION_HEADER = "x-llm-d-video-resolution"
FPS_HEADER = "x-llm-d-video-fps"

MAX_MEDIA_TOKENS = 1024 * 1024
"""Most tokens of one item: more than models read, and 4 MiB of memory."""

N = TypeVar("N", int, float)

_RESOLUTION = re.compile(r"\s*+(\d{1,9})[xX](\d{1,9})\s*+", re.ASCII)


class MediaEstimate:
    """Counts the tokens of media; at least one each, so that every item takes part in hashes."""

    def __init__(self, parameters: Estimate) -> None:
        image, video = parameters.image, parameters.video
        self._static_image = max(image.static.static_token, 1) if image.mode == "static" else 0
        self._image_factor = _or(image.dynamic.factor, 1024)
        self._image_size = _size(image.default_resolution)
        self._video = _VideoEstimate(video)

    def tokens(self, media: Media, headers: Headers) -> int:
        """Tokens of one item; `headers` may describe the request's videos."""
        if media.modality == "image":
            count = self._static_image or self._image_tokens(media)
        elif media.modality == "video":
            count = self._video.tokens(headers)
        else:
            count = math.ceil(len(media.content) / 4)
        return min(max(count, 1), MAX_MEDIA_TOKENS)

    def _image_tokens(self, media: Media) -> int:
        width, height = image_size(media.content) or self._image_size
        return width * height // self._image_factor


class _VideoEstimate:
    """Frames by tokens of a frame. What the request's headers tell wins."""

    def __init__(self, video: VideoEstimate) -> None:
        frame = video.tokens_per_frame
        self._static_frame = (
            max(frame.static.num_tokens_per_frame, 1) if frame.mode == "static" else 0
        )
        self._factor = _or(frame.dynamic.factor, 1024)
        self._size = _size(video.default_resolution)
        self._duration = _or(video.default_duration, 10.0)
        self._frames = video.frames
        self._most = _or(video.max_video_tokens, MAX_MEDIA_TOKENS)

    def tokens(self, headers: Headers) -> int:
        return min(self._frame_count(headers) * self._tokens_per_frame(headers), self._most)

    def _frame_count(self, headers: Headers) -> int:
        frames = self._frames
        duration = _number(headers, DURATION_HEADER) or self._duration
        if frames.mode == "strided":
            fps = _number(headers, FPS_HEADER) or _or(frames.strided.default_source_fps, 24.0)
            taken = _whole(duration * fps) // max(frames.strided.frame_stride, 1)
            return _clamped(taken, frames)
        taken = _clamped(_whole(duration * _or(frames.sampled.sample_fps, 2.0)), frames)
        return taken // max(frames.sampled.temporal_patch_size, 1)

    def _tokens_per_frame(self, headers: Headers) -> int:
        if self._static_frame:
            return self._static_frame
        told = _RESOLUTION.fullmatch(headers.get(RESOLUTION_HEADER) or "")
        width, height = (int(told[1]), int(told[2])) if told else self._size
        if not width or not height:
            width, height = self._size
        return max(width * height // self._factor, 1)


def _number(headers: Headers, name: str) -> float:
    """A header that is a number above zero; else 0."""
    text = headers.get(name)
    if text is None:
        return 0.0
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if 0 < number < math.inf else 0.0


def _whole(number: float) -> int:
    return int(min(number, 1e18))


def _clamped(count: int, frames: Frames) -> int:
    if frames.min_frames > 0:
        count = max(count, frames.min_frames)
    return min(count, frames.max_frames) if frames.max_frames > 0 else count


def _size(resolution: Resolution) -> Size:
    return _or(resolution.width, 640), _or(resolution.height, 360)


def _or(number: N, default: N) -> N:
    return number if number > 0 else default
