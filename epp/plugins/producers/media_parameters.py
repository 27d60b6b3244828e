"""Parameters of the estimate of how many tokens images and videos become (scheduling §12.1).

As in the reference, a number that is not above zero counts as not given.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from epp.framework.plugin import Parameters


class Resolution(Parameters):
    """Width and height in pixels."""

    width: int = Field(0, description="Width in pixels; 640 if not above zero.")
    height: int = Field(0, description="Height in pixels; 360 if not above zero.")


class DynamicCount(Parameters):
    """A count that grows with the number of pixels."""

    factor: int = Field(0, description="Pixels for each token; 1024 if not above zero.")


class StaticImage(Parameters):
    """The same count for every image."""

    static_token: int = Field(0, description="Tokens of an image; 1 if not above zero.")


class ImageEstimate(Parameters):
    """How many tokens an image becomes."""

    mode: Literal["", "dynamic", "static"] = Field(
        "dynamic", description="`dynamic`: pixels by `factor`; `static`: `staticToken`."
    )
    default_resolution: Resolution = Field(
        Resolution(), description="Resolution of an image whose size can't be read."
    )
    dynamic: DynamicCount = Field(DynamicCount(), description="Parameters of mode `dynamic`.")
    static: StaticImage = Field(StaticImage(), description="Parameters of mode `static`.")


class StaticFrame(Parameters):
    """The same count for every frame."""

    num_tokens_per_frame: int = Field(0, description="Tokens of a frame; 1 if not above zero.")


class TokensPerFrame(Parameters):
    """How many tokens a frame of a video becomes."""

    mode: Literal["", "dynamic", "static"] = Field(
        "dynamic", description="`dynamic`: pixels by `factor`; `static`: `numTokensPerFrame`."
    )
    dynamic: DynamicCount = Field(DynamicCount(), description="Parameters of mode `dynamic`.")
    static: StaticFrame = Field(StaticFrame(), description="Parameters of mode `static`.")


class SampledFrames(Parameters):
    """Frames are taken at a rate of the model's."""

    sample_fps: float = Field(
        0,
        alias="sampleFPS",
        description="Frames taken from a second; 2 if not above zero.",
    )
    temporal_patch_size: int = Field(
        0, description="Frames that become one; below 2 each stays its own."
    )


class StridedFrames(Parameters):
    """Every so many frames one is taken."""

    default_source_fps: float = Field(
        0,
        alias="defaultSourceFPS",
        description="Frames in a second if the request does not tell; 24 if not above zero.",
    )
    frame_stride: int = Field(0, description="One of so many frames is taken; at least 1.")


class Frames(Parameters):
    """How many frames of a video are taken."""

    mode: Literal["", "sampled", "strided"] = Field(
        "sampled", description="`sampled`: by time; `strided`: by the video's own frames."
    )
    min_frames: int = Field(0, description="Fewest frames; no bound if not above zero.")
    max_frames: int = Field(0, description="Most frames; no bound if not above zero.")
    sampled: SampledFrames = Field(SampledFrames(), description="Parameters of mode `sampled`.")
    strided: StridedFrames = Field(StridedFrames(), description="Parameters of mode `strided`.")


class VideoEstimate(Parameters):
    """How many tokens a video becomes."""

    default_resolution: Resolution = Field(
        Resolution(), description="Resolution if the request does not tell."
    )
    default_duration: float = Field(
        0, description="Seconds if the request does not tell; 10 if not above zero."
    )
    tokens_per_frame: TokensPerFrame = Field(TokensPerFrame(), description="Tokens of a frame.")
    frames: Frames = Field(Frames(), description="Frames of a video.")
    max_video_tokens: int = Field(
        0, description="Most tokens of a video; no bound if not above zero."
    )


class Estimate(Parameters):
    """The backend that needs no tokenizer: four bytes are a token."""

    image: ImageEstimate = Field(ImageEstimate(), description="Tokens of an image.")
    video: VideoEstimate = Field(VideoEstimate(), description="Tokens of a video.")
