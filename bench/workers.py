"""workers.py - Worker: a process that prepares and measures workloads on request; tidu's, or that of a library beside it."""
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import time

PEERS = {"jax": "jax", "torch": "torch", "torch_compile": "torch"}  # by name: the module that it needs


def processors():
    """Those that this process may run on: first one of every core, then the others; faster cores first where there are kinds."""
    def number(cpu, name, missing):
        try:
            text = pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/{name}").read_text()
            return int(text.replace("-", ",").split(",")[0])
        except (OSError, ValueError):
            return missing

    allowed, taken, first, others = sorted(os.sched_getaffinity(0)), set(), [], []
    for cpu in sorted(allowed, key=lambda cpu: -number(cpu, "cpufreq/cpuinfo_max_freq", 0)):
        core = number(cpu, "topology/thread_siblings_list", cpu)
        (others if core in taken else first).append(cpu)
        taken.add(core)
    return first + others


def quota():
    """How many processors' time the control group of this process may use; None without a limit."""
    try:
        limit, period = pathlib.Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        return None


PROCESSORS = processors()


class Failure(Exception):
    """A worker that failed to execute its request."""


def environment(threads, cache):
    """For libraries beside tidu: threads each on a processor of their own, and an allocator that keeps large blocks, in huge pages,
    instead of having their pages faulted anew, which costs them up to half of their time."""
    places = ",".join("{%d}" % p for p in PROCESSORS[:threads])
    return {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OMP_PROC_BIND": "true",
            "OMP_PLACES": places, "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
            "MALLOC_TOP_PAD_": str(1 << 26), "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1", "THP_MEM_ALLOC_ENABLE": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(pathlib.Path(cache) / "inductor"),
            "TORCHINDUCTOR_COMPILE_THREADS": "1" if threads <= 2 else str(threads), "TF_CPP_MIN_LOG_LEVEL": "2",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONDONTWRITEBYTECODE": "1"}


class Worker:
    """Started with the first request, and again after it failed."""

    def __init__(self, name, command, threads, env, log):
        self.name, self.command, self.threads, self.env, self.log = name, command, threads, env, log
        self.process, self.version = None, None

    def start(self, greets):
        processors = set(PROCESSORS[:self.threads])
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(self.log, "ab"), env=self.env,
            start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, processors))
        os.set_blocking(self.process.stdout.fileno(), False)
        self.read = b""
        if greets:
            self.version = self.receive(120)["version"]

    def send(self, request):
        if self.process is None:
            self.start(greets=self.name != "tidu")
        try:
            self.process.stdin.write(request.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            self.stop()
            raise Failure(f"ended: {error}") from None

    def receive(self, timeout):
        """The next line, decoded. Stops the worker when it does not come in time."""
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.read:
                if not selector.select(max(0.0, end - time.monotonic())):
                    self.stop()
                    raise Failure(f"no answer within {timeout:.0f} s")
                more = self.process.stdout.read()
                if not more:
                    self.stop()
                    raise Failure(f"ended; {self.log} may say why")
                self.read += more
        line, self.read = self.read.split(b"\n", 1)
        reply = json.loads(line)
        if reply is not None and "error" in reply:
            raise Failure(reply["error"])
        return reply

    def ask(self, request, timeout):
        self.send(request)
        return self.receive(timeout)

    def signal(self, number):
        if self.process is not None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass

    def pause(self):
        """Until `resume` none of its threads runs: those that wait awake for more to do take others' processors."""
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def stop(self):
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None


def peers_that_run(python, names):
    """Of these libraries those that this Python has."""
    found = []
    for name in names:
        module = PEERS[name]
        code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
        if subprocess.run([python, "-c", code], capture_output=True).returncode == 0:
            found.append(name)
    return found


def refused_device(program, device):
    """None, or the line in which tidu says why there is no such device."""
    reply = subprocess.run([program, "--serve", "--device", device], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return None if reply.returncode == 0 else reply.stderr.strip() or f"{program} ended with status {reply.returncode}"


def workers(program, python, peers, threads, directory, cache, most_forms, device=None):
    """By name: tidu's worker, then those of the peers."""
    logs = pathlib.Path(cache)
    logs.mkdir(parents=True, exist_ok=True)
    there = ["--device", device] if device else []
    found = {"tidu": Worker("tidu", [program, "--serve", "--threads", str(threads), "--inputs", str(directory), *there], threads,
                            os.environ, logs / f"tidu_{threads}.log")}
    script = str(pathlib.Path(__file__).resolve().parent / "peers" / "worker.py")
    for name in peers:
        command = [python, script, name, "--threads", str(threads), "--inputs", str(directory), "--most-forms", str(most_forms),
                   *there]
        found[name] = Worker(name, command, threads, environment(threads, cache), logs / f"{name}_{threads}.log")
    return found
