"""The kinds of source, and what a configuration may say about each.

Naming a kind imports none of its code: `SOURCES.build` does.
"""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, PlainSerializer, field_validator, model_validator

from edge.capture.camera_url import camera_url
from pipelines.blocks import Block, InputFile, InputFolder, MisfitError
from pipelines.redaction import redacted
from pipelines.registry import Family, Kind
from pipelines.units import Duration, Extent, duration

Url = Annotated[str, AfterValidator(camera_url), PlainSerializer(redacted, return_type=str)]
"""Shown and dumped without its secrets."""
Pace = Literal["real_time", "as_fast_as_possible"]
Frames = Literal["latest", "every"]
_LATEST = "latest: a newer frame replaces a waiting one; every: pull-driven, none is replaced"
_LATENCY = "age of a frame when it becomes available"


class FileSourceConfig(Block):
    """A video file, played at its own pace or read as fast as frames are taken."""

    kind: Literal["file"]
    path: InputFile = Field(description="anything OpenCV opens")
    pace: Pace = "real_time"
    fps: float | None = Field(
        None, gt=0, le=1000, description="frames per second; left out: what the file says"
    )
    loop: bool = Field(False, description="start again at the end")
    frames: Frames = Field("latest", description=_LATEST)
    latency: Duration = Field(duration("0ms"), description=_LATENCY)


class ImagesSourceConfig(Block):
    """The pictures of a folder in natural order (2.png before 10.png), 8 or 16 bits, of any sizes."""

    kind: Literal["images"]
    path: InputFolder = Field(description="the folder; jpg, png, bmp, tif, webp, pgm and ppm files in it")
    pace: Pace = "real_time"
    fps: float = Field(10.0, gt=0, le=1000, description="frames per second")
    loop: bool = Field(False, description="start again at the end")
    frames: Frames = Field("latest", description=_LATEST)
    latency: Duration = Field(duration("0ms"), description=_LATENCY)


class LiveSourceConfig(Block):
    """What every camera has: it may be absent, fall silent and come back."""

    latency: Duration = Field(
        duration("0ms"), description="age of a frame when it becomes available: exposure, encoding, network"
    )
    open_timeout: Duration = Field(
        duration("10s"), description="from an attempt to connect to its first picture"
    )
    stall_after: Duration = Field(
        duration("2s"),
        description="without a fresh picture for so long the camera is stalled and opened anew",
    )
    max_stale: Duration | None = Field(
        None,
        description="frames this much older than the freshest are shed as stale_source; left out: half the deadline",
    )

    @field_validator("open_timeout", "stall_after")
    @classmethod
    def _leaves_time(cls, value_us: int) -> int:
        if value_us < 100_000:
            raise ValueError("must be at least 100ms: a camera needs that long between two pictures")
        return value_us


class CameraSourceConfig(LiveSourceConfig):
    """A network camera: rtsp, rtsps, or http and https with MJPEG or whatever else FFmpeg reads."""

    kind: Literal["camera"]
    url: Url = Field(description="like rtsp://10.0.0.7:554/stream1")
    user: str | None = Field(
        None, min_length=1, description="of the camera; its password is in password_file"
    )
    password_file: InputFile | None = Field(
        None, description="a file with the password, read at each connect"
    )
    transport: Literal["tcp", "udp"] = Field(
        "tcp", description="of RTSP; udp loses packets, tcp waits for them"
    )
    size: Extent | None = Field(None, description="expected until the first picture; left out: unknown")
    fps: float | None = Field(None, gt=0, le=1000, description="expected, for the warnings at start")

    @model_validator(mode="after")
    def _says_it_once(self) -> Self:
        if self.password_file is not None and self.user is None:
            raise MisfitError((("password_file",), "needs user: beside it"))
        if self.user is not None and "@" in self.url.partition("//")[2].partition("/")[0]:
            raise MisfitError((("user",), "the url names a user too; say it once, here"))
        return self


class UsbSourceConfig(LiveSourceConfig):
    """A camera on this machine through Video4Linux."""

    kind: Literal["usb"]
    device: int | str = Field(
        0, union_mode="left_to_right", description="N of /dev/videoN, or a path like /dev/video0"
    )
    size: Extent | None = Field(None, description="asked of the camera; left out: its own")
    fps: float | None = Field(None, gt=0, le=1000, description="asked of the camera; left out: its own")
    pixels: Literal["mjpeg", "yuyv"] | None = Field(
        None,
        description="asked of the camera; USB 2 carries 1080p at 30 fps only as mjpeg; left out: its own",
    )

    @field_validator("device")
    @classmethod
    def _is_a_device(cls, device: int | str) -> int | str:
        if isinstance(device, int) and device < 0:
            raise ValueError("must be 0 or more: N of /dev/videoN")
        if isinstance(device, str) and not device.startswith("/dev/"):
            raise ValueError("must be a number or a path like /dev/video0")
        return device


class SyntheticSourceConfig(Block):
    """A moving square on noise. For rehearsals and tests."""

    kind: Literal["synthetic"]
    size: Extent = Field((640, 360), description="of the pictures")
    fps: float = Field(25.0, gt=0, le=1000, description="frames per second")
    pace: Pace = "real_time"
    frames: Frames = "latest"
    latency: Duration = Field(duration("0ms"), description=_LATENCY)
    count: int | None = Field(None, ge=1, description="frames until it ends; left out: never")
    seed: int = Field(0, ge=0, description="of the noise")


SourceConfig = Annotated[
    FileSourceConfig | CameraSourceConfig | UsbSourceConfig | ImagesSourceConfig | SyntheticSourceConfig,
    Field(discriminator="kind"),
]

SOURCES = Family(
    "source",
    Kind(
        name="file",
        config=FileSourceConfig,
        target="edge.capture.file:FileSource",
        words="a video file, in real time or as fast as possible",
    ),
    Kind(
        name="camera",
        config=CameraSourceConfig,
        target="edge.capture.camera:CameraSource",
        words="a network camera: rtsp://, rtsps://, http:// or https://",
    ),
    Kind(
        name="usb",
        config=UsbSourceConfig,
        target="edge.capture.usb:UsbSource",
        words="a camera on this machine: /dev/video0",
    ),
    Kind(
        name="images",
        config=ImagesSourceConfig,
        target="edge.capture.images:ImagesSource",
        words="the pictures of a folder, 8 or 16 bits",
    ),
    Kind(
        name="synthetic",
        config=SyntheticSourceConfig,
        target="edge.capture.synthetic:SyntheticSource",
        words="a moving square on noise",
    ),
)
