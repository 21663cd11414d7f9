"""The workers of docs/tenants.md, as they stand there but for their port, times and limits: jobs of many tenants, one that
floods, and a worker that is killed. PORT says where a server with the module is."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from redis import Redis

ROOT = Path(__file__).parents[2]
PORT = os.environ["PORT"]
PAGE = (ROOT / "docs/tenants.md").read_text()
FOLDER = Path(tempfile.mkdtemp(prefix="redis-lock-tenants-"))
LIMIT, PER, TTL = 4, 2, 2
server = Redis(port=int(PORT), decode_responses=True, protocol=3)

SHOP = f"""
import os, time
from redis import Redis

jobs = Redis(port={PORT})

def render(tenant, number):
    jobs.rpush("reports-done", f"began {{tenant}} {{number}} {{os.getppid()}}")
    while not jobs.sismember("reports-open", f"{{tenant}} {{number}}"):
        time.sleep(0.02)
    jobs.rpush("reports-done", f"ended {{tenant}} {{number}} {{os.getppid()}}")
"""
LLM = f"""
const jobs = new (require("ioredis").Redis)({PORT});

exports.chat = async (prompt) => {{
  await jobs.rpush("llm-done", `began ${{prompt}} ${{process.pid}}`);
  while (!await jobs.sismember("llm-open", prompt)) await new Promise((done) => {{ setTimeout(done, 20); }});
  await jobs.rpush("llm-done", `ended ${{prompt}} ${{process.pid}}`);
}};
"""
ADD = f"""
const queue = new (require("bullmq").Queue)("prompts", {{ connection: {{ port: {PORT} }} }});
require("node:readline").createInterface({{ input: process.stdin }}).on("line", (line) => {{
  queue.add("chat", {{ tenant: line.split(" ")[0], prompt: line }});
}});
"""


def eventually(what, condition, within=60.0):
    end = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.01)
    return found


class Workers:
    """Of one kind. Its jobs run until they are opened, and say so in a list."""

    def __init__(self, block, file, replaced):
        [program] = re.findall(rf"^```{block}\n(.*?)^```", PAGE, re.S | re.M)
        for here, there in {"6379": PORT, **replaced}.items():
            assert here in program, here
            program = program.replace(here, there)
        self.folder, self.running = FOLDER / block, {}
        self.folder.mkdir()
        (self.folder / file).write_text(program)

    def launch(self, command, **how):
        return subprocess.Popen(command, cwd=self.folder, env={**os.environ, **self.environment}, start_new_session=True,
                                **how)

    def start(self):
        log = open(self.folder / f"log-{len(self.running)}", "w+")
        process = self.launch(self.command, stdout=log, stderr=subprocess.STDOUT)
        self.running[process.pid] = process
        return process.pid

    def kill(self, pid):
        """With its children."""
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        self.running[pid].wait()

    def end(self):
        for pid in self.running:
            self.kill(pid)

    def logs(self):
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("log-*")))

    def open(self, job):
        server.sadd(f"{self.key}-open", job)

    def events(self):
        return [event.rsplit(" ", 1) for event in server.lrange(f"{self.key}-done", 0, -1)]

    def busy(self, worker=None):
        """The jobs that run, in the order in which they began."""
        jobs = {}
        for event, pid in self.events():
            what, job = event.split(" ", 1)
            if what == "began":
                jobs[job] = int(pid)
            else:
                del jobs[job]
        return [job for job, pid in jobs.items() if worker in (None, pid)]

    def info(self):
        return server.execute_command("LOCK.INFO", self.key, "COUNT", 1000)

    def check_limits(self):
        """There were never too many jobs at once. (Those of a worker that was killed never end.)"""
        of_all, of_one = Counter(), Counter()
        for event, pid in self.events():
            what, tenant, _ = event.split(" ")
            for count, whose in (of_all, pid), (of_one, (pid, tenant)):
                count[whose] += 1 if what == "began" else -1
            assert of_all[pid] <= LIMIT and of_one[pid, tenant] <= PER, (of_all, of_one)


class Celery(Workers):
    key, environment = "reports", {}
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--concurrency", "8", "--without-gossip",
               "--without-mingle", "--without-heartbeat"]

    def __init__(self):
        super().__init__("python", "tasks.py", {
            "timeout=30": f"timeout={TTL}", "limit=10": f"limit={LIMIT}", "per=3": f"per={PER}", "backoff_max=60": "backoff_max=1",
            "blocking_timeout=5": "blocking_timeout=60"})
        (self.folder / "shop.py").write_text(SHOP)
        sys.path.insert(0, str(self.folder))
        import tasks
        self.tasks = tasks

    def add(self, tenant, number):
        self.tasks.report.delay(tenant, number)


class BullMQ(Workers):
    key, command = "llm", ["node", "worker.js"]
    environment = {"NODE_PATH": f"{FOLDER}/packages:{ROOT}/tests/clients/node_modules"}

    def __init__(self):
        super().__init__("js", "worker.js", {
            "30_000": f"{TTL}_000", '"llm", 20': f'"llm", {LIMIT}', "per: 5": f"per: {PER}", "2_000 *": "50 *",
            "acquireTimeout: 5_000": "acquireTimeout: 60_000", "concurrency: 100": "concurrency: 20"})
        (self.folder / "llm.js").write_text(LLM)
        (self.folder / "add.js").write_text(ADD)
        (FOLDER / "packages").mkdir()
        (FOLDER / "packages/redis-lock-module").symlink_to(ROOT / "clients/node")
        self.adder = self.launch(["node", "add.js"], stdin=subprocess.PIPE, text=True)
        self.running[self.adder.pid] = self.adder

    def add(self, tenant, number):
        self.adder.stdin.write(f"{tenant} {number}\n")
        self.adder.stdin.flush()


def a_tenant_that_floods_does_not_delay_others(workers):
    for number in range(50):
        workers.add("acme", number)
    eventually("it has its share", lambda: len(workers.busy()) == PER)
    workers.add("zoo", 1)
    eventually("another comes before all of the flood", lambda: "zoo 1" in workers.busy())
    assert len(workers.busy()) == PER + 1


def the_next_slot_is_for_who_has_the_fewest(workers):
    workers.add("eve", 1)
    eventually("all are taken", lambda: len(workers.busy()) == LIMIT)
    workers.add("fay", 1)

    eventually("both wait", lambda: {group["group"] for group in workers.info().get("groups", [])} == {"acme", "fay"})
    [first, *_] = workers.busy()
    workers.open(first)
    eventually("the slot is taken again", lambda: first not in workers.busy() and len(workers.busy()) == LIMIT)
    assert workers.busy()[-1] == "fay 1", workers.busy()


def a_killed_worker_gives_its_slots_back(workers):
    [killed] = {int(pid) for _, pid in workers.events()}
    assert len(workers.busy(killed)) == LIMIT
    workers.kill(killed)
    assert workers.info()["count"] == LIMIT
    other = workers.start()
    workers.add("gus", 1)
    workers.add("acme", 99)
    eventually("another worker has them", lambda: {"acme", "gus"} <= {job.split(" ")[0] for job in workers.busy(other)})
    workers.open("gus 1")
    eventually("it goes on", lambda: "gus 1" not in workers.busy())


def main():
    for kind in (Celery, BullMQ):
        workers = None
        try:
            workers = kind()
            workers.start()
            for test in (a_tenant_that_floods_does_not_delay_others, the_next_slot_is_for_who_has_the_fewest,
                         a_killed_worker_gives_its_slots_back):
                began = time.monotonic()
                test(workers)
                workers.check_limits()
                print(f"{kind.__name__}: {test.__name__}: {time.monotonic() - began:.1f} s")
        except BaseException:
            print(workers and workers.logs())
            raise
        finally:
            if workers:
                workers.end()
    print("docs/tenants.md does what it says")


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
try:
    main()
finally:
    shutil.rmtree(FOLDER)
