"""An image, read from its archive and unpacked as a runtime would.

Promises: layers are applied in order; a layer that deletes a file of an earlier one is refused, because the image has
no use for it.
"""

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Image:
    """An image: its configuration, and its files in `root`."""

    root: Path
    config: dict
    layer_bytes: int

    @property
    def entry_point(self) -> list[str]:
        return self.config["Entrypoint"]

    @property
    def environment(self) -> dict[str, str]:
        return dict(pair.split("=", 1) for pair in self.config["Env"])

    @property
    def user(self) -> tuple[int, int]:
        """The user and group of the process, by number."""
        user, group = self.config["User"].split(":")
        return int(user), int(group)


def unpack(archive: Path, root: Path) -> Image:
    """Unpacks the archive of `docker save`'s form below `root`."""
    layer_bytes = 0
    with tarfile.open(archive) as image:
        [description] = json.load(image.extractfile("manifest.json"))
        config = json.load(image.extractfile(description["Config"]))["config"]
        for name in description["Layers"]:
            layer_bytes += image.getmember(name).size
            with tarfile.open(fileobj=image.extractfile(name)) as layer:
                names = [Path(member.name).name for member in layer]
                assert not [name for name in names if name.startswith(".wh.")], "a layer deletes files"
                layer.extractall(root, filter="fully_trusted")
    return Image(root, config, layer_bytes)
