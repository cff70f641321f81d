"""Each message about a mistake names the remedy, before the user's function is called where it can be."""

import os
import subprocess
import sys
import warnings

import pytest
from mistakes import FUNCTIONS, KEYWORDS, MISTAKES, VALUES


def said(call):
    """The message of the error, or else the warnings and the reasons of the result."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            found = call()
        except Exception as error:
            return str(error)
    return " ".join([*(str(one.message) for one in warned), *found.reasons])


@pytest.mark.parametrize(("call", "words"), [pytest.param(*row, id=name) for name, *row in MISTAKES])
def test_the_message_names_the_remedy(call, words):
    message = said(call)
    assert [word for word in words if word not in message] == [], message


def test_the_table_has_mistakes_of_each_kind():
    assert len({name for name, *_ in MISTAKES}) == len(MISTAKES) >= 40
    assert min(map(len, (KEYWORDS, VALUES, FUNCTIONS))) >= 15


SCRIPT = """
import os, signal, bqvi
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs behind
def log_joint(theta, calls=[]):
    calls.append(theta)
    if len(calls) == 12:
        os.kill(os.getpid(), signal.SIGINT)
    return -float(theta @ theta)
bqvi.vbmc(log_joint, plausible_lower=[-1, -1], plausible_upper=[1, 1], budget=30)
"""


@pytest.mark.skipif(os.name != "posix", reason="a signal is sent to the process")
def test_an_interrupted_script_ends_in_a_paragraph():
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert ended.returncode
    assert len(ended.stderr.splitlines()) <= 8, ended.stderr
    assert "RunInterrupted: interrupted after 11 evaluations; this exception has" in ended.stderr
