"""Shared by the scripts of this directory: timing on the GPU, and one line of JSON per measurement.

Times are measured with CUDA events, without transfers. A call is captured as a CUDA graph if possible, so that launches cost
little; otherwise it is called directly, and the line records this."""
import argparse, json, statistics, sys, time
import torch

SAMPLE_MS = 20.0


def options(description):
    """An argument parser with the options of every script."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9, help="samples; the median counts")
    parser.add_argument("--seconds", type=float, default=600, help="no further measurement is started after this time")
    return parser


def numbers(text):
    return [int(word) for word in text.split(",")]


def start():
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    return time.monotonic()


def note(text):
    print(text, file=sys.stderr, flush=True)


def emit(**values):
    values = {"peer": "PyTorch %s" % torch.__version__, "device": torch.cuda.get_device_name(), **values}
    print(json.dumps(values), flush=True)


# ---- timing -------------------------------------------------------------------------------------------------------------------

def elapsed(run, calls):
    """Milliseconds per call."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


def captured(run):
    """The call as a CUDA graph, or None."""
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        graph.replay()
        torch.cuda.synchronize()
        return graph
    except Exception as problem:  # operations that cannot be captured raise many types
        torch.cuda.synchronize()
        note("not captured: %s" % str(problem).strip().split("\n")[0][:200])
        return None


def median_ms(run, repeats, capture=True):
    """Median milliseconds per call, and whether it was captured."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    graph = captured(run) if capture else None
    call = graph.replay if graph else run
    calls = max(1, min(1000, round(SAMPLE_MS / max(1e-3, elapsed(call, 2)))))
    samples = [elapsed(call, calls) for _ in range(repeats)]
    return statistics.median(samples), graph is not None


def attempt(what, measure):
    """Runs a measurement; a failure (memory, a missing library) is reported, and the next measurement continues."""
    try:
        measure()
    except Exception as problem:
        note("%s: %s: %s" % (what, type(problem).__name__, str(problem).strip()[:400]))
    torch.cuda.empty_cache()
