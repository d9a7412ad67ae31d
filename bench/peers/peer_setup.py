"""Shared by the scripts of this directory: settings with which the libraries are fastest on this CPU.

`for_torch()` and `for_numpy()` are called before PyTorch or NumPy is imported, because both read the environment and the CPU then."""
import ctypes, os, shutil, subprocess, sys, tempfile

THREADS = len(os.sched_getaffinity(0))  # libraries may choose fewer by default
DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def note(text):
    print(f"{os.path.basename(sys.argv[0])}: {text}", file=sys.stderr, flush=True)


def cpu_flags():
    """The instruction sets of the CPU as Linux names them, and its vendor."""
    flags, vendor = set(), ""
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            key, _, value = (part.strip() for part in line.partition(":"))
            if key == "vendor_id":
                vendor = value
            elif key in ("flags", "Features"):
                return set(value.split()), vendor
    return flags, vendor


# ---- OpenBLAS ----------------------------------------------------------------------------------------------------------

PRODUCT = """
import time, numpy
a = numpy.ones((1536, 1536), numpy.float32)
a @ a
times = []
for i in range(5):
    start = time.perf_counter()
    a @ a
    times.append(time.perf_counter() - start)
print(min(times))
"""


def core_types():
    """Core types of OpenBLAS that run on this CPU; "" is the detected type."""
    flags, vendor = cpu_flags()
    types = [""]
    if "avx512_bf16" in flags:
        types += ["SAPPHIRERAPIDS" if "amx_tile" in flags else "COOPERLAKE"]
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        types += ["SKYLAKEX"]
    if {"avx2", "fma"} <= flags:
        types += ["ZEN" if vendor == "AuthenticAMD" else "HASWELL"]
    return types


def for_numpy():
    """Chooses the core type with the fastest float32 product in NumPy, unless OPENBLAS_CORETYPE is set: OpenBLAS mistakes some virtual CPUs for old ones."""
    if "OPENBLAS_CORETYPE" in os.environ:
        return
    times = {}
    for name in core_types():
        run = subprocess.run([sys.executable, "-c", PRODUCT], env={**os.environ, "OPENBLAS_CORETYPE": name} if name else None,
                             capture_output=True, text=True)
        if run.returncode == 0:
            times[name] = float(run.stdout)
    best = min(times, key=times.get, default="")
    # the detected type is kept if it is equally fast
    if best and times[best] < 0.95 * times.get("", float("inf")):
        os.environ["OPENBLAS_CORETYPE"] = best
    rates = ", ".join(f"{name or 'detected'} {2e-9 * 1536 ** 3 / seconds:.0f}" for name, seconds in times.items())
    note(f"OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', '')} (GFLOP/s: {rates})")


def blas():
    """The BLAS and OpenMP libraries of this process with the core types and threads that they use."""
    try:
        import threadpoolctl
    except ImportError:
        with open("/proc/self/maps") as maps:
            return sorted({os.path.basename(line.split()[-1]) for line in maps if "blas" in line or "mkl" in line})
    return [" ".join(str(library[key]) for key in ("internal_api", "version", "architecture", "num_threads") if library.get(key))
            for library in threadpoolctl.threadpool_info()]


# ---- PyTorch -----------------------------------------------------------------------------------------------------------

def describe_tiles():
    """Loads cpuid.c, which is required on some virtual machines. Returns False without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        return False
    with tempfile.TemporaryDirectory() as directory:
        library = os.path.join(directory, "cpuid.so")
        run = subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, os.path.join(DIRECTORY, "cpuid.c")], capture_output=True)
        if run.returncode == 0:
            ctypes.CDLL(library)
    return run.returncode == 0


def keep_memory():
    """Configures the C allocator to keep freed memory: PyTorch frees every array, and the C library returns those above 32 MB
    to the system, so that the next one needs new pages. Linear attention of 16,384 tokens took half the time with this setting;
    at 4,096 tokens there was no difference."""
    trim, top_pad, mmap_max, arenas = -1, -2, -4, -8
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    for option, value in ((mmap_max, 0), (trim, 2 ** 31 - 1), (top_pad, 64 << 20), (arenas, 1)):
        mallopt(option, value)


def for_torch():
    """Settings before `import torch`."""
    keep_memory()
    if "amx_tile" in cpu_flags()[0] and not describe_tiles():
        probe = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"
        if subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode < 0:
            os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_FP16"
            note("bfloat16 products without AMX, which oneDNN cannot use on this host without a C compiler")


def thread_counts():
    """Half of the CPUs may be faster than all for small products."""
    return sorted({THREADS, max(1, THREADS // 2)}, reverse=True)


def best(records):
    """Prints all records to standard error and returns the fastest."""
    for record in records:
        details = ", ".join(str(value) for key, value in record.items() if key not in ("seconds", "threads", "loss"))
        note(f"{details}, {record['threads']} threads: {1e3 * record['seconds']:.4g} ms")
    return min(records, key=lambda record: record["seconds"])
