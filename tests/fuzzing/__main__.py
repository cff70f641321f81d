"""Many random cases of a front door; each kind of failure is listed once.

python -m tests.fuzzing DOOR --cases 10000 --seed 0
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzzing.cases import DOORS, Case, cases, judged

_NUMBERS = re.compile(r"[-\d.]+(?=[ ,;)\]:])|0x[0-9a-f]+")


def main() -> int:
    """Run the cases of one front door; return 1 if any of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("door", choices=DOORS)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    found: Counter[str] = Counter()
    count, began = 0, time.process_time()

    @seed(chosen.seed)
    @settings(
        max_examples=chosen.cases,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(chosen.door))
    def knock(case: Case) -> None:
        nonlocal count
        count += 1
        with tempfile.TemporaryDirectory() as folder:
            why = judged(case, Path(folder))
        if why is not None:
            kind = _NUMBERS.sub("#", why)
            found[kind] += 1
            if found[kind] == 1:
                print(f"{why}\n    {case}", flush=True)

    knock()
    seconds = time.process_time() - began
    print(f"{chosen.door}: {count} cases, {seconds:.0f} s, {found.total()} break a promise")
    for kind, times in found.most_common():
        print(f"{times:6d}  {kind}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
