"""Texts and sequences of a folder (--data DIR): the layout, what is said of another one, and the studies."""

import numpy as np
import pytest
import scipy.sparse
from quick_runs import looked_at, table
from typer.testing import CliRunner

from experiments.harness import registry
from experiments.harness.cli import app
from experiments.harness.experiment import Case, Resources, UnfitFolderError
from experiments.models import sequences, topics
from experiments.problems.array_files import DataFolderError
from experiments.problems.texts_and_series import (
    Symbols,
    find_sequences,
    find_texts,
    read_sequences,
    read_texts,
)

FOLDERS = ("models-topics", "models-sequences")
COUNTS = np.random.default_rng(0).poisson(1.0, (40, 6)) + np.eye(6, dtype=int)[np.arange(40) % 6]
SYMBOLS = np.array([0, 2, 2, 1, 2, 0, 2])


def stored(path, counts=COUNTS, **more):
    csr = scipy.sparse.csr_array(counts)
    arrays = {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr, "shape": np.array(csr.shape)}
    np.savez(path, **{**arrays, **more})


@pytest.fixture
def folder(tmp_path):
    stored(tmp_path / "novel.npz", vocabulary=np.array(list("abcdef")))
    (tmp_path / "below").mkdir()
    np.savez(tmp_path / "below" / "letters.npz", symbols=np.tile(SYMBOLS, 10), lengths=np.array([30, 40]))
    (tmp_path / "river.csv").write_text(
        "day,flow\n2000-01-01,1.5\n2000-01-02,\n2000-01-04,2.5\n2000-02-01,9\n"
    )
    (tmp_path / "quakes.csv").write_text("year,count\n1900,3\n1901,4\n1903,12\n1904,10\n")
    (tmp_path / "pairs.csv").write_text("a,b\n2,1\n1,3\n")  # no times
    np.savez(tmp_path / "pictures.npz", images=np.zeros((3, 8, 8)))
    return tmp_path


def test_files_are_found_by_their_layout_and_read(folder):
    assert [path.stem for path in find_texts(folder)] == ["novel"]
    assert [path.stem for path in find_sequences(folder)] == ["letters", "quakes", "river"]
    texts = read_texts(folder / "novel.npz")
    np.testing.assert_array_equal(texts.counts.toarray(), COUNTS)
    assert texts.words == tuple("abcdef")
    letters, quakes, river = (read_sequences(path) for path in find_sequences(folder))
    assert letters.alphabet == ("0", "1", "2")
    assert letters.lengths.tolist() == [30, 40]
    assert (quakes.is_count, river.is_count) == (True, False)
    assert 365.25 * np.diff(river.times) == pytest.approx([1.0, 2.0, 28.0])
    assert np.isnan(river.values).tolist() == [False, True, False, False]


@pytest.mark.parametrize("name", FOLDERS)
def test_what_a_folder_lacks_is_said(name, tmp_path):
    np.savez(tmp_path / "pictures.npz", images=np.zeros((3, 8, 8)))
    with pytest.raises(UnfitFolderError, match=r"no \.npz file with .*neither in itself nor one level below"):
        registry.load(name).checked_cases(False, Resources(data=tmp_path))
    done = CliRunner().invoke(app, ["run", name, "--data", str(tmp_path), "--results", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert "Invalid value for --data" in done.output
    assert "Traceback" not in done.output
    assert not (tmp_path / "out").exists()


def symbols(path, **given):
    np.savez(path, **({"symbols": SYMBOLS} | given))


def counts(path, *, rows):
    path.write_text(f"year,count\n{rows}\n")


@pytest.mark.parametrize(
    ("write", "given", "message"),
    [
        (stored, {"data": np.full(2, 0.5)}, "whole and positive"),
        (stored, {"indptr": np.array([0, 1])}, "no CSR array"),
        (stored, {"indices": np.array([0, 99])}, "no CSR array"),
        (stored, {"indices": np.array(["a", "b"])}, "vectors of numbers"),
        (stored, {"vocabulary": np.array(["a"])}, r"vocabulary has shape \(1,\), not \(2,\)"),
        (symbols, {"symbols": np.array([0.5, 1.0])}, "integers from 0"),
        (symbols, {"symbols": np.array([-1, 1])}, "integers from 0"),
        (symbols, {"lengths": np.array([3, 3])}, "sum to 7"),
        (symbols, {"alphabet": np.array(["a", "b"])}, "symbols go to 2, alphabet has 2"),
        (counts, {"rows": "1900,3\n1901,4.5"}, "count must be whole"),
    ],
)
def test_another_layout_is_named(write, given, message, tmp_path):
    path = tmp_path / ("file.csv" if write is counts else "file.npz")
    write(path, **({"counts": np.eye(2, dtype=int)} if write is stored else {}), **given)
    with pytest.raises(DataFolderError, match=message):
        (read_texts if write is stored else read_sequences)(path)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_run_drawn_and_tabulated(name, folder):
    experiment = registry.load(name)
    results = table(experiment, Resources(data=folder))
    assert looked_at(experiment, results)
    checks = [check for claim in experiment.claims(results) for check in claim.checks]
    assert not any(check.true for check in checks if "." in check.setting.split(",")[0])  # by one seed


def test_word_frequencies_predict_as_one_topic_does(folder):
    """The posterior mean of a single topic is the counts plus the prior's, normalised."""
    cases = topics.cases(True, Resources(data=folder))
    plain = next(case for case in cases if topics.FREQUENCIES in case.name)
    one = Case("one", {**plain.settings, "way": "batch", "method": "cavi", "topics": 1, "passes": 2}, folder)
    expected = topics.run(one, 3)["perplexity"].dropna().iloc[-1]
    assert topics.run(plain, 3)["perplexity"].iloc[0] == pytest.approx(expected)


def test_shares_of_symbols_are_those_of_the_posterior(folder):
    case = next(c for c in sequences.cases(True, Resources(data=folder)) if "letters.npz" in c.name)
    rows = sequences.run(case, 0)
    assert rows["value"].to_numpy() == pytest.approx(np.bincount(np.tile(SYMBOLS, 10)))
    assert rows[["state_0", "state_1"]].sum(axis=1).to_numpy() == pytest.approx(np.ones(3))
    assert rows["state_0"].iloc[2] >= 0.5  # the commonest symbol's state is the first
    assert isinstance(read_sequences(folder / "below" / "letters.npz"), Symbols)
    assert max(sequences.STATES) <= sequences.MOST
