"""`gp.threads`: the numbers of threads are those that threadpoolctl and torch report."""

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 (loads a BLAS of its own)
import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

import gp
from gp.threads import single_threaded, users_threads

MANY = 3


def numbers():
    pools = [(pool["filepath"], pool["num_threads"]) for pool in ThreadpoolController().info()]
    return [*pools, ("torch", torch.get_num_threads())]


def counts():
    return {count for _, count in numbers()}


@pytest.fixture(autouse=True)
def many_threads():
    """More than one thread, as a user has, whatever the environment says."""
    before = torch.get_num_threads()
    with threadpool_limits(MANY):
        torch.set_num_threads(MANY)
        yield
        assert counts() == {MANY}
    torch.set_num_threads(before)


def test_one_thread_inside_and_the_users_after():
    with single_threaded():
        assert counts() == {1}
        np.linalg.cholesky(np.eye(50))
        assert counts() == {1}


def test_the_users_function_sees_the_users_number():
    with single_threaded():
        with users_threads():
            assert counts() == {MANY}
            with single_threaded(), single_threaded():
                assert counts() == {1}
            assert counts() == {MANY}
        assert counts() == {1}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_exceptions_restore(error):
    with pytest.raises(error), single_threaded(), users_threads(), single_threaded():
        raise error
    assert counts() == {MANY}


def test_another_thread_leaves_blas_to_the_first():
    entered, leave, seen = threading.Event(), threading.Event(), []
    blas = [pool for pool in ThreadpoolController().lib_controllers if pool.user_api == "blas"]

    def engine():
        before = torch.get_num_threads()
        with single_threaded():
            entered.set()
            leave.wait()
            seen.append(torch.get_num_threads())
        seen.append(torch.get_num_threads() == before)

    beside = threading.Thread(target=engine)
    with single_threaded():
        beside.start()
        entered.wait()
        assert counts() == {1}
        with users_threads():
            assert counts() == {MANY}
    assert counts() == {MANY}  # the other thread is still in its block
    leave.set()
    beside.join()
    assert seen == [1, True]
    assert {pool.get_num_threads() for pool in blas} == {MANY}
    with single_threaded():
        assert counts() == {1}


def test_fits_restore():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20, 2))
    gp.fit(x, np.sin(x[:, 0]))
    assert counts() == {MANY}
    with pytest.raises(ValueError, match="finite"):
        gp.fit(x, np.full(20, np.nan))
    assert counts() == {MANY}
