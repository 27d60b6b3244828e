"""How many tokens media become."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epp.framework.headers import Headers
from epp.framework.parsed_request import Media
from epp.plugins.producers.media_estimate import (
    DURATION_HEADER,
    FPS_HEADER,
    MAX_MEDIA_TOKENS,
    RESOLUTION_HEADER,
    MediaEstimate,
)
from epp.plugins.producers.media_parameters import Estimate

DURATION, RESOLUTION, FPS = DURATION_HEADER, RESOLUTION_HEADER, FPS_HEADER
PNG_8_BY_8 = b"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFX"


def tokens(media: Media, estimate: dict[str, Any] | None = None, **headers: str) -> int:
    items = [(name.replace("_", "-"), value.encode()) for name, value in headers.items()]
    return MediaEstimate(Estimate.model_validate(estimate or {})).tokens(media, Headers(items))


@pytest.mark.parametrize(
    ("content", "image", "count"),
    [
        (b"https://i", {}, 225),
        (b"data:image/png;base64,AAAA", {}, 225),
        (b"https://i", {"defaultResolution": {"width": 1024, "height": 0}}, 360),
        (b"https://i", {"defaultResolution": {"width": -1, "height": 1}}, 1),
        (b"https://i", {"dynamic": {"factor": 784}}, 640 * 360 // 784),
        (b"https://i", {"dynamic": {"factor": -1}}, 225),
        (PNG_8_BY_8, {}, 1),
        (PNG_8_BY_8, {"dynamic": {"factor": 1}}, 64),
        (PNG_8_BY_8, {"mode": "static", "static": {"staticToken": 280}}, 280),
        (PNG_8_BY_8, {"mode": "static"}, 1),
        (PNG_8_BY_8, {"mode": "", "static": {"staticToken": 280}}, 1),
        (b"https://i", {"dynamic": {"factor": 1}, "mode": "dynamic"}, 640 * 360),
    ],
)
def test_images(content: bytes, image: dict[str, Any], count: int) -> None:
    assert tokens(Media("image", content), {"image": image}) == count


@pytest.mark.parametrize(
    ("frames", "headers", "count"),
    [
        ({}, {}, 20),
        ({}, {DURATION: "1.75"}, 3),
        ({"sampled": {"sampleFPS": 1}}, {DURATION: "7"}, 7),
        ({"sampled": {"temporalPatchSize": 2}}, {DURATION: "2.5"}, 2),
        ({"sampled": {"temporalPatchSize": 9}}, {DURATION: "2"}, 0),
        ({"minFrames": 30}, {}, 30),
        ({"maxFrames": 8, "sampled": {"temporalPatchSize": 2}}, {}, 4),
        ({}, {FPS: "60"}, 20),
        ({"mode": "strided"}, {}, 240),
        ({"mode": "strided", "strided": {"frameStride": 7}}, {}, 34),
        ({"mode": "strided", "strided": {"defaultSourceFPS": 30}}, {}, 300),
        ({"mode": "strided", "strided": {"defaultSourceFPS": 30}}, {FPS: "60"}, 600),
        ({"mode": "strided", "maxFrames": 8}, {}, 8),
        ({"mode": "strided", "minFrames": 500}, {}, 500),
        ({}, {DURATION: "-1"}, 20),
        ({}, {DURATION: "nan"}, 20),
        ({}, {DURATION: "inf"}, 20),
        ({}, {DURATION: "long"}, 20),
    ],
)
def test_frames_of_videos(frames: dict[str, Any], headers: dict[str, str], count: int) -> None:
    one_token = {"mode": "static", "static": {"numTokensPerFrame": 1}}

    found = tokens(
        Media("video", b"https://v"),
        {"video": {"frames": frames, "tokensPerFrame": one_token}},
        **headers,
    )

    assert found == max(count, 1)


@pytest.mark.parametrize(
    ("video", "headers", "count"),
    [
        ({}, {}, 225),
        ({"defaultResolution": {"width": 64, "height": 64}}, {}, 4),
        ({"defaultResolution": {"width": 64, "height": 64}}, {RESOLUTION: "1280x720"}, 900),
        ({}, {RESOLUTION: "1x1"}, 1),
        ({}, {RESOLUTION: "0x720"}, 225),
        ({}, {RESOLUTION: "1280 720"}, 225),
        ({"tokensPerFrame": {"dynamic": {"factor": 2048}}}, {}, 112),
        ({"tokensPerFrame": {"mode": "static"}}, {RESOLUTION: "1280x720"}, 1),
        ({"maxVideoTokens": 100}, {}, 100),
    ],
)
def test_tokens_of_a_frame(video: dict[str, Any], headers: dict[str, str], count: int) -> None:
    one_frame = {"maxFrames": 1}

    found = tokens(Media("video", b""), {"video": {"frames": one_frame, **video}}, **headers)

    assert found == count


@pytest.mark.parametrize("modality", ["audio", "file"])
def test_sounds_and_files_are_a_token_for_four_characters(modality: str) -> None:
    assert tokens(Media(modality, b"AAAAA")) == 2
    assert tokens(Media(modality, b"")) == 1


@given(st.sampled_from(["image", "video", "audio"]), st.binary(), st.text(), st.text())
def test_the_count_is_bounded_whatever_the_headers(
    modality: str, content: bytes, duration: str, resolution: str
) -> None:
    headers = {DURATION: duration, FPS: duration, RESOLUTION: resolution}
    parameters = {"video": {"frames": {"mode": "strided"}}}

    encodable = {n: v.encode("utf-8", "replace").decode() for n, v in headers.items()}
    found = tokens(Media(modality, content), parameters, **encodable)

    assert 1 <= found <= MAX_MEDIA_TOKENS


def test_a_video_of_a_thousand_years_is_bounded() -> None:
    headers = {DURATION: "1e300", RESOLUTION: "999999999x999999999"}

    assert tokens(Media("video", b""), None, **headers) == MAX_MEDIA_TOKENS
