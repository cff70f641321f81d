"""Cards of the gallery say what the report says of the same results; quick results have no verdict."""

import json

import pytest
import toy_experiment
from PIL import Image

from experiments.harness import execution, gallery, runner, store
from experiments.harness.claims import Check, Claim


def claims(results):
    seeds = results["seed"].nunique()
    checks = [Check("always", True, "1 > 0", wins=seeds, seeds=seeds), Check("never", False, "0 > 1")]
    return [Claim("1", "One is more than nothing.", "it is", checks)]


def computed(experiment, root, **options):
    made = runner.plan(experiment, root, **options)
    store.write_text(store.manifest_path(root, experiment.name), made.manifest.to_json())
    list(execution.execute(made.pending))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root, folder = tmp_path_factory.mktemp("results"), tmp_path_factory.mktemp("gallery")
    old = {"caption": "Old.", "seeds": 1, "quick": False, "claims": []}
    (folder / gallery.INDEX).write_text(json.dumps({"full": old, "absent": old}))
    toys = [toy_experiment.make(name=name, claims=claims) for name in ("toy", "quick", "full", "no")]
    computed(toys[0], root)
    for toy in toys[1:3]:
        computed(toy, root, quick=True)
    assert gallery.write(toys, root, folder) == ["toy", "quick"]
    return folder


def test_verdicts_are_those_of_the_claims(folder):
    cards = json.loads((folder / gallery.INDEX).read_text())
    assert set(cards) == {"toy", "quick", "full", "absent"}
    assert cards["full"]["caption"] == "Old."  # a quick run takes the place of no full one
    assert cards["quick"]["quick"]
    assert cards["quick"]["claims"] == []
    assert not cards["toy"]["quick"]
    claim = {"statement": "One is more than nothing.", "verdict": "holds only if", "conditions": ["always"]}
    assert cards["toy"]["claims"] == [claim]
    assert cards["toy"]["seeds"] == 3
    assert cards["toy"]["caption"].startswith("Errors <by> rate.")


def test_the_picture_has_the_size_of_a_card(folder):
    assert {path.name for path in folder.glob("*.png")} == {"toy.png", "quick.png"}
    with Image.open(folder / "toy.png") as image:
        assert image.width == gallery.WIDTH
        assert len(image.convert("RGB").getcolors()) <= gallery.COLOURS
