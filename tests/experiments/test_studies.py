"""Rows of studies are of constants that exist, with the values that they have."""

import ast
import importlib
from pathlib import Path

import pytest

import experiments.studies
from experiments.studies import studies

MODULES = sorted(path.stem for path in Path(experiments.studies.__file__).parent.glob("*.json"))


@pytest.mark.parametrize("module", MODULES)
def test_a_study_is_of_the_value_that_a_constant_has(module):
    tree = ast.parse(Path(importlib.import_module(module).__file__).read_text())
    fields = {
        f"{record.name}.{field.target.id}": field.value
        for record in tree.body
        if isinstance(record, ast.ClassDef)
        for field in record.body
        if isinstance(field, ast.AnnAssign)
    }
    records = {name.split(".")[0] for name in fields}
    for row in studies(module):
        if "." in row["setting"]:
            said = ast.dump(ast.parse(row["value"], mode="eval").body)
            assert ast.dump(fields[row["setting"]]) == said, row["setting"]
        else:
            assert row["setting"] in {"", *records}
        assert row["study"].endswith("."), row
