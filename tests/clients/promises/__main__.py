"""Tests the promises in clients/README.md with each package, and that its table says what holds.

    python3 tests/clients/promises              all
    python3 tests/clients/promises Node 14 15   these promises, with this language or client

REDIS_SERVER and REDIS_LOCK_MODULE name the server and the module, WITHOUT a language that is not here, and AT_ONCE says
how many tests go at once.
"""

import os
import signal
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import fleet  # noqa: F401  its test
import promises  # noqa: F401  its tests
from languages import FOR_SOME, OTHERS, PROGRAMS
from program import Cannot
from table import Table
from trial import PROMISES, TOGETHER, Trial, Worker


def outcome(language, number):
    """Of all the tests of a promise: `yes`, `–` if the package has no means for it, or what went wrong."""
    began = time.monotonic()
    trial, went_well = Trial(language), True
    try:
        for test in PROMISES[number]:
            test(trial)
        said = "yes"
    except Cannot:
        said = "–"
    except Exception:
        went_well = False
        said = f"{traceback.format_exc()}\n{trial}"
    finally:
        trial.end(went_well)
    return language, number, said, time.monotonic() - began


def of(number, languages):
    """Those with which this promise is tested."""
    if number == 42:
        return [TOGETHER]
    return [one for one in languages if one in PROGRAMS or number in FOR_SOME]


def main(words):
    table = Table({language for language, _ in PROGRAMS})
    wrong = table.errors(set(PROMISES))
    numbers = [int(word) for word in words if word.isdigit()] or sorted(PROMISES)
    names = [word for word in words if not word.isdigit()]
    languages = [one for one in [*PROGRAMS, *OTHERS] if not names or set(one) & set(names)]
    without = os.environ.get("WITHOUT")
    languages = [one for one in languages if one[0] != without]
    began, times, kept = time.monotonic(), {}, 0
    with ThreadPoolExecutor(int(os.environ.get("AT_ONCE", 8))) as pool:
        for work in [pool.submit(outcome, language, number) for number in numbers for language in of(number, languages)]:
            language, number, said, took = work.result()
            times[number, language] = took
            stated = table.cell(number, language[0])
            if said == stated:
                kept += 1
                continue
            wrong.append(f"--- {number}, {' with '.join(language)}: {said if len(said) > 3 else repr(said)}\n"
                         f"(the table says {stated!r})")
    Worker.end_resting()
    for number, language in sorted(times, key=times.get)[-5:]:
        print(f"{number} with {language[1]} took {times[number, language]:.1f} s")
    print("\n".join(wrong))
    if without:
        print(f"{without} was not run, because it is not here")
    print(f"promises: {kept} of {len(times)} outcomes as clients/README.md says, {len(wrong)} errors, "
          f"in {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


def stop(*_):
    Trial.stop_all()
    sys.exit(1)


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
sys.exit(main(sys.argv[1:]))
