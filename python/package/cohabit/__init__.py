"""Puts threads and ranks that communicate close together.

The profiles, mappers and estimates of the command line tool ``cohabit``, over the same core: matrices are numpy arrays, tables
are pandas frames, and files are those of the tool (a profile that ``cohabit profile`` wrote, a mapping that ``cohabit run
--mapping`` takes).

    >>> import cohabit, numpy
    >>> profile = cohabit.Profile.from_matrix(numpy.array([[0, 9, 0, 0], [9, 0, 1, 0], [0, 1, 0, 9], [0, 0, 9, 0]]))
    >>> mapping = cohabit.map(profile, "pack:2 core:2 pu:1")
    >>> mapping.pus.tolist()
    [0, 1, 2, 3]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Iterable, Literal, Mapping as MappingOf, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt
import pandas as pd

from . import _core
from ._core import CohabitError

__all__ = ["CohabitError", "Mapping", "Profile", "Topology", "evaluate", "load", "map", "mappers", "plot"]

PathLike = Union[str, "os.PathLike[str]"]
Kind = Literal["threads", "processes", "ranks"]
Weight = Literal["messages", "bytes", "transfers"]
Counts = npt.NDArray[np.uint64]


class Profile:
    """Who communicated with whom: matrices ``[source, destination]``, a row a task."""

    def __init__(self, core: _core.Profile) -> None:
        self._core = core

    @staticmethod
    def from_matrix(
        messages: npt.ArrayLike,
        bytes: Optional[npt.ArrayLike] = None,
        *,
        kind: Kind = "threads",
        names: Optional[Sequence[str]] = None,
    ) -> Profile:
        """A profile of a square array or frame of counts; ``bytes`` are zero where they are not given.

        The labels of a frame are the tasks' names. Raises CohabitError for what is not square, negative or not whole.
        """
        if names is None and isinstance(messages, pd.DataFrame):
            names = [str(label) for label in messages.index]
        counted = _counts(messages, "messages")
        volume = np.zeros_like(counted) if bytes is None else _counts(bytes, "bytes")
        named = [""] * len(counted) if names is None else list(names)
        return Profile(_core.Profile.of_matrix(len(counted), counted.tobytes(), volume.tobytes(), kind, named))

    def save(self, path: PathLike) -> None:
        """Writes a profile that the tool reads, whole or not at all."""
        self._core.save(os.fspath(path))

    def __len__(self) -> int:
        return self._core.count()

    def __repr__(self) -> str:
        return f"<cohabit.Profile: {len(self)} {self.kind}, {int(self.messages.sum())} messages>"

    @property
    def messages(self) -> Counts:
        """Communication events, or messages of ranks."""
        return self._square(self._core.messages())

    @property
    def bytes(self) -> Counts:
        """Bytes."""
        return self._square(self._core.bytes())

    @property
    def kind(self) -> str:
        """What the tasks are: threads, processes, ranks or hybrid."""
        return str(self.meta["kind"])

    @property
    def meta(self) -> dict[str, Any]:
        """What else is known: docs/formats.md has the keys."""
        found: dict[str, Any] = json.loads(self._core.meta())
        return found

    @property
    def tasks(self) -> pd.DataFrame:
        """A row a task: its name, host, process, rank and more."""
        return pd.DataFrame(self.meta["tasks"]).set_index("id")

    @property
    def series(self) -> pd.DataFrame:
        """Events over time: bin, source, destination, messages, bytes; empty where the profile has none."""
        rows = np.frombuffer(self._core.series(), dtype="<u8").reshape(-1, 5)
        return pd.DataFrame(rows, columns=["bin", "source", "destination", "messages", "bytes"])

    def to_frame(self, weight: Literal["messages", "bytes"] = "messages") -> pd.DataFrame:
        """A matrix with its tasks' numbers as labels."""
        matrix = self.messages if weight == "messages" else self.bytes
        return pd.DataFrame(matrix).rename_axis(index="source", columns="destination")

    def _square(self, counts: Any) -> Counts:
        return np.frombuffer(counts, dtype="<u8").reshape(len(self), len(self)).astype(np.uint64)


class Topology:
    """A machine as a tree: ``live``, a synthetic string (``"pack:2 core:4 pu:2"``), or a file of hwloc's or of a cluster."""

    def __init__(self, text: PathLike = "live") -> None:
        self._core = _core.Topology.load(os.fspath(text))

    @property
    def pus(self) -> npt.NDArray[np.uint32]:
        """OS indices of the PUs that may be used."""
        return np.array(self._core.pus(), dtype=np.uint32)

    @property
    def distances(self) -> Counts:
        """Distance of each two of these."""
        count = len(self._core.pus())
        return np.frombuffer(self._core.distances(), dtype="<u8").reshape(count, count).astype(np.uint64)

    def __repr__(self) -> str:
        return f"<cohabit.Topology: {len(self._core.pus())} PUs>"


class Mapping:
    """A PU for every task: the mapping file of the tool, format 1."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    @staticmethod
    def load(path: PathLike) -> Mapping:
        """Reads a mapping file."""
        return Mapping(json.loads(Path(path).read_text()))

    def save(self, path: PathLike) -> None:
        """Writes a file for ``cohabit run --mapping``."""
        Path(path).write_text(json.dumps(self.document, indent=2) + "\n")

    @property
    def pus(self) -> npt.NDArray[np.uint32]:
        """The OS index of each task's PU, by the task's number."""
        return np.array([task["pu"] for task in self.document["tasks"]], dtype=np.uint32)

    @property
    def tasks(self) -> pd.DataFrame:
        """A row a task: its PU, host, process, rank and more."""
        return pd.DataFrame(self.document["tasks"]).set_index("task")

    @property
    def cost(self) -> int:
        """The distance cost J."""
        return int(self.document["cost"]["distance"])

    @property
    def lower_bound(self) -> Optional[int]:
        """No mapping costs less."""
        bound = self.document["cost"].get("lower_bound")
        return None if bound is None else int(bound)

    @property
    def no_gain(self) -> Optional[str]:
        """Why every placement is as good as every other; None where one may be better."""
        reason = self.document.get("no_gain")
        return None if reason is None else str(reason)

    def __repr__(self) -> str:
        return f"<cohabit.Mapping: {len(self.document['tasks'])} tasks by {self.document['mapper']}, J {self.cost}>"


Placement = Union[Mapping, Sequence[int], npt.NDArray[Any]]


def load(path: PathLike) -> Profile:
    """Reads a profile that ``cohabit profile`` or ``cohabit import`` wrote."""
    return Profile(_core.Profile.load(os.fspath(path)))


def mappers() -> pd.DataFrame:
    """The algorithms: what each does, and where it was published."""
    return pd.DataFrame(_core.mappers(), columns=["name", "about", "source"]).set_index("name")


def map(
    profile: Profile,
    topology: Union[Topology, PathLike] = "live",
    mapper: str = "best",
    *,
    seed: int = 0,
    weight: Optional[Weight] = None,
    pins: Optional[MappingOf[int, Union[int, str]]] = None,
    forbidden: Iterable[Union[int, str]] = (),
    share_cores: bool = False,
    steps: Optional[int] = None,
    budget: Optional[float] = None,
    threads: int = 1,
) -> Mapping:
    """Says where each task should run. The same seed and steps give the same mapping.

    ``pins`` are PUs of tasks, ``forbidden`` PUs stay empty: OS indices, on a cluster ``"host:index"``. ``budget`` is in seconds.
    Whether there is anything to gain, ``cohabit map`` says.
    """
    text = _core.map_tasks(
        profile._core,
        _topology(topology)._core,
        mapper,
        seed,
        weight,
        [(task, str(pu)) for task, pu in (pins or {}).items()],
        [str(pu) for pu in forbidden],
        share_cores,
        steps,
        budget,
        threads,
    )
    return Mapping(json.loads(text))


def evaluate(
    profile: Profile,
    mappings: MappingOf[str, Placement],
    topology: Union[Topology, PathLike] = "live",
    *,
    weight: Optional[Weight] = None,
) -> pd.DataFrame:
    """What mappings are worth: a row each, after ``linear``, which puts task after task.

    Columns: ``cost`` is J; ``gain`` what is saved of J over linear, as a share; ``seconds`` the estimated time of communication
    on a cluster whose ports are known (docs/estimator.md), else not a number.
    """
    placements = [_names(placement) for placement in mappings.values()]
    found = _core.evaluate(profile._core, _topology(topology)._core, placements, weight)
    frame = pd.DataFrame(
        {"cost": [cost for cost, _ in found], "seconds": [np.nan if s is None else s for _, s in found]},
        index=pd.Index(["linear", *mappings], name="mapping"),
    )
    linear = found[0][0]
    frame.insert(1, "gain", [1 - cost / linear if linear else 0.0 for cost, _ in found])
    return frame


def plot(profile: Profile, output: PathLike, what: str = "matrix", *options: str) -> Path:
    """Draws a picture (.svg, .png or .pdf) with the installed tool, ``cohabit plot``, so that all pictures look alike.

    ``options`` are more of its words. The tool is what COHABIT names, else the ``cohabit`` in PATH.
    """
    program = os.environ.get("COHABIT") or shutil.which("cohabit")
    if program is None:
        raise CohabitError("there is no cohabit in PATH, which draws\ninstall it, or name it in COHABIT")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "profile.npz")
        profile.save(path)
        words = [program, "plot", path, "--what", what, "-o", os.fspath(output), *options]
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise CohabitError(ran.stderr.strip())
    return Path(output)


def _topology(topology: Union[Topology, PathLike]) -> Topology:
    return topology if isinstance(topology, Topology) else Topology(topology)


def _names(placement: Placement) -> list[str]:
    if not isinstance(placement, Mapping):
        return [str(int(pu)) for pu in placement]
    on_cluster = len({task.get("host", "") for task in placement.document["tasks"]}) > 1
    return [f"{task['host']}:{task['pu']}" if on_cluster else str(task["pu"]) for task in placement.document["tasks"]]


def _counts(values: npt.ArrayLike, name: str) -> Counts:
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise CohabitError(f"{name}: an array of shape {array.shape} is not square")
    if array.dtype.kind == "f" and not np.all(array == np.floor(array)):
        raise CohabitError(f"{name}: counts are whole numbers\nscale and round them")
    if array.dtype.kind not in "uifb" or (array.size and array.min() < 0):
        raise CohabitError(f"{name}: counts are whole numbers from 0 on")
    return np.ascontiguousarray(array, dtype="<u8")
