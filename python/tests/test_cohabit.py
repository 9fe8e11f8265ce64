"""The package as people use it; what it computes is compared with plain numpy."""

import doctest
import runpy
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cohabit

CHAIN = np.diag([5, 7, 9], 1)


def cost(messages: np.ndarray, topology: cohabit.Topology, pus) -> int:
    """J by its definition."""
    place = {int(pu): at for at, pu in enumerate(topology.pus)}
    at = [place[int(pu)] for pu in pus]
    return int((messages * topology.distances[np.ix_(at, at)]).sum())


def test_a_profile_is_read_as_it_was_written(tmp_path):
    profile = cohabit.Profile.from_matrix(CHAIN, 64 * CHAIN, kind="processes", names=list("abcd"))
    profile.save(tmp_path / "p.npz")
    again = cohabit.load(tmp_path / "p.npz")
    assert np.array_equal(again.messages, CHAIN) and np.array_equal(again.bytes, 64 * CHAIN)
    assert (again.kind, list(again.tasks["name"]), len(again)) == ("processes", list("abcd"), 4)
    assert again.series.empty and again.to_frame().loc[1, 2] == 7
    # numpy reads it without us.
    assert np.array_equal(np.load(tmp_path / "p.npz")["messages"], CHAIN)


def test_a_frame_names_its_tasks():
    frame = pd.DataFrame(CHAIN, index=list("wxyz"), columns=list("wxyz"))
    assert list(cohabit.Profile.from_matrix(frame).tasks["name"]) == list("wxyz")


@pytest.mark.parametrize("mapper", ["best", "packed", "scatter", "complace"])
def test_mappings_cost_what_the_definition_says(mapper, tmp_path):
    random = np.random.default_rng(1)
    messages = random.integers(0, 100, (8, 8))
    profile, topology = cohabit.Profile.from_matrix(messages), cohabit.Topology("pack:2 core:4 pu:1")
    mapping = cohabit.map(profile, topology, mapper)
    assert sorted(mapping.pus) == list(range(8))
    np.fill_diagonal(messages, 0)
    assert mapping.cost == cost(messages, topology, mapping.pus) >= mapping.lower_bound
    table = cohabit.evaluate(profile, {"it": mapping, "by hand": mapping.pus}, topology)
    assert list(table.index) == ["linear", "it", "by hand"]
    assert table.cost["it"] == table.cost["by hand"] == mapping.cost
    mapping.save(tmp_path / "m.json")
    assert cohabit.Mapping.load(tmp_path / "m.json").document == mapping.document


def test_what_is_asked_for_is_kept():
    profile = cohabit.Profile.from_matrix(CHAIN)
    mapping = cohabit.map(profile, "core:8 pu:1", pins={0: 5}, forbidden=[0, 1])
    assert mapping.pus[0] == 5 and not set(mapping.pus) & {0, 1}
    assert cohabit.map(profile, "core:8 pu:1", seed=3).pus.tolist() == cohabit.map(profile, "core:8 pu:1", seed=3).pus.tolist()


def test_bad_input_is_told_with_its_cause(tmp_path):
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    profile = cohabit.Profile.from_matrix(CHAIN)
    for call, cause in [
        (lambda: cohabit.load(tmp_path / "nowhere.npz"), "nowhere.npz"),
        (lambda: cohabit.load(tmp_path / "broken.npz"), "broken.npz"),
        (lambda: cohabit.Profile.from_matrix([[1, 2]]), "not square"),
        (lambda: cohabit.Profile.from_matrix([[-1]]), "from 0 on"),
        (lambda: cohabit.Profile.from_matrix([[0.5]]), "whole"),
        (lambda: cohabit.Profile.from_matrix(CHAIN, names=["a"]), "1 names for 4 tasks"),
        (lambda: cohabit.Profile.from_matrix(CHAIN, kind="fibres"), "fibres"),
        (lambda: cohabit.map(profile, "core:8 pu:1", "nonsense"), "nonsense"),
        (lambda: cohabit.map(profile, "core:2 nonsense"), "nonsense"),
        (lambda: cohabit.map(profile, "core:8 pu:1", pins={9: 0}), "4 tasks"),
        (lambda: cohabit.map(profile, "core:8 pu:1", "packed", steps=5), "does not search"),
        (lambda: cohabit.map(profile, "core:8 pu:1", budget=-1), "budget"),
        (lambda: cohabit.evaluate(profile, {"short": [0]}, "core:8 pu:1"), "a placement of 1 tasks"),
        (lambda: cohabit.evaluate(profile, {"far": [0, 1, 2, 99]}, "core:8 pu:1"), "99"),
    ]:
        with pytest.raises(cohabit.CohabitError, match=cause):
            call()


def test_where_nothing_can_be_gained_the_mapping_says_so(tmp_path):
    profile = cohabit.Profile.from_matrix(CHAIN)
    alike = cohabit.map(profile, cohabit.Topology("core:4 pu:1"))
    assert "equally far from one another" in alike.no_gain
    alike.save(tmp_path / "m.json")
    assert cohabit.Mapping.load(tmp_path / "m.json").no_gain == alike.no_gain
    # Nobody is confined then.
    assert list(alike.tasks["pus"]) == ["0-3"] * 4
    assert cohabit.map(profile, cohabit.Topology("pack:2 core:2 pu:1")).no_gain is None


def test_the_mappers_are_listed():
    assert {"best", "packed", "scatter"} <= set(cohabit.mappers().index)


def test_pictures_are_the_tools(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("COHABIT", raising=False)
    with pytest.raises(cohabit.CohabitError, match="no cohabit in PATH"):
        cohabit.plot(cohabit.Profile.from_matrix(CHAIN), tmp_path / "m.svg")


@pytest.mark.skipif(not shutil.which("cohabit"), reason="no cohabit in PATH")
def test_a_matrix_is_drawn(tmp_path):
    picture = cohabit.plot(cohabit.Profile.from_matrix(CHAIN), tmp_path / "m.svg")
    assert picture.read_text().lstrip().startswith(("<svg", "<?xml"))


def test_the_tour_finds_the_pairs(capsys):
    runpy.run_path(str(Path(__file__).parent.parent / "examples" / "tour.py"))
    assert "8 tasks by best" in capsys.readouterr().out


def test_the_examples_of_the_documentation_are_right():
    assert doctest.testmod(cohabit).failed == 0
