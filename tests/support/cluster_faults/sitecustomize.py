"""Python finds this module in the workers of a test's executors: storage calls of first attempts fail, end or wait.

The file ``rule`` in the directory ``PAIMON_TEST_FAULTS`` says what happens: the fault, and the number of the storage
call of a task at which it happens. Later attempts of a task work.
"""

import json
import os
import signal
import time

FOLDER = os.environ.get("PAIMON_TEST_FAULTS")
CALLS = ("read_bytes", "open_input", "open_output", "write_bytes", "create_exclusive", "list_names")


def executor_of(process: int) -> int:
    """The nearest ancestor that is a JVM."""
    while process > 1:
        with open(f"/proc/{process}/cmdline", "rb") as command:
            if b"CoarseGrainedExecutorBackend" in command.read():
                return process
        with open(f"/proc/{process}/stat") as stat:
            process = int(stat.read().rpartition(")")[2].split()[1])
    raise RuntimeError("no executor")


def note(fault: str) -> bool:
    """Note a fault; say whether it is the statement's first."""
    try:
        os.close(os.open(f"{FOLDER}/done-{fault}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def put_faults() -> None:
    from pyspark import TaskContext

    from paimon_spark.storage.file_io import LocalFileIO

    counted: dict[int, int] = {}

    def happen(rule: dict) -> None:
        fault = rule["fault"]
        if fault == "error":
            note(fault)
            raise OSError("injected fault of a first attempt")
        if fault == "kill" and note(fault):
            os.kill(executor_of(os.getppid()), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "slow" and note(fault):
            time.sleep(rule["seconds"])

    def wrap(name: str) -> None:
        plain = getattr(LocalFileIO, name)

        def faulty(*given, **named):
            context = TaskContext.get()
            if context is None or context.attemptNumber() or not os.path.exists(f"{FOLDER}/rule"):
                return plain(*given, **named)
            task = context.taskAttemptId()
            number = counted[task] = counted.get(task, -1) + 1
            with open(f"{FOLDER}/rule") as file:
                rule = json.load(file)
            due = number == rule["call"]
            if due and not rule["after"]:
                happen(rule)
            result = plain(*given, **named)
            if due and rule["after"]:
                happen(rule)
            return result

        setattr(LocalFileIO, name, faulty)

    for name in CALLS:
        wrap(name)


if FOLDER:
    put_faults()
