#!/usr/bin/env python3
"""Builds a solution of `mlpbwd export --sol-execbench`, runs the 16 workloads of problem 073 and checks the gradients.

    python3 bench/sol_execbench_check.py DIR/solution.json

The build is the benchmark's: the sources go into a folder of their own and torch.utils.cpp_extension.load compiles them
with the solution's flags (https://github.com/NVIDIA/SOL-ExecBench 1.0.2, driver/templates/build_ext.py). Inputs are
standard normal, the weights divided by the square root of their last dimension. Each gradient is compared with the
formulas in float64: its relative Frobenius error must be within the accuracy class of the solution (`--accuracy`), the
bias gradient that is a plain sum within 2^-20 of its sum of magnitudes. A second run must give the same bits, and so
must one on another stream.

The benchmark judges by the share of elements within atol + rtol * |reference|, with tolerances of each workload's own
in the data set: `--workloads FILE` takes shapes and tolerances from its workload.jsonl and fails what misses them.
Without that file the share is printed for the schema's default tolerances and not judged: at many tokens they ask for
more than 16-bit or TF32 operands can give (elements near zero beside a gradient of size sqrt(T), absolute tolerance
1e-2), which the column of PyTorch's TF32 on the same inputs shows. A solution exported with `--accuracy fp32` meets
them; `--strict` judges by them.

Times: per repetition a delay that lets the launches queue up, a write of twice the L2, then the pass between two events;
the median of `--repetitions` after `--warmup`. The benchmark itself times kernels with CUPTI; its clocks are locked.
Exit code: 0 all workloads pass, 1 one does not, 2 something that is needed is missing.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

SUITE = [
    (1, 1024), (2, 128), (2, 256), (2, 512), (2, 4096), (4, 256), (4, 512), (4, 541),
    (8, 128), (8, 256), (8, 773), (16, 512), (16, 1024), (32, 128), (32, 256), (64, 128),
]  # fmt: skip
HIDDEN, INTERMEDIATE = 2048, 8192
OUTPUTS = ["grad_hidden_states", "grad_weight1", "grad_bias1", "grad_weight2", "grad_bias2"]
# Largest relative Frobenius error of the first four outputs: README.md, "Accuracy".
CLASSES = {
    "tf32": [5.5e-4, 5.5e-4, 3.8e-4, 3.8e-4],
    "fp32": [2e-6, 2e-6, 2e-6, 2e-6],
    "bf16": [5.3e-3, 5.3e-3, 3.8e-3, 3.8e-3],
}
SUM_BOUND = 2.0**-20


class Missing(Exception):
    """Something that the check needs is not on this machine."""


def load_solution(path):
    try:
        solution = json.loads(Path(path).read_text())
    except (OSError, ValueError) as error:
        raise Missing(f"{path} cannot be read: {error}") from error
    for field in ("name", "definition", "author", "spec", "sources"):
        if field not in solution:
            raise Missing(f"{path} has no field '{field}': it is no solution of SOL-ExecBench")
    return solution


def import_torch():
    try:
        import torch
        from torch.utils import cpp_extension
    except ImportError as error:
        raise Missing(f"PyTorch cannot be imported: {error}") from error
    if not torch.cuda.is_available():
        raise Missing("PyTorch finds no CUDA device")
    home = cpp_extension.CUDA_HOME
    nvcc = os.path.join(home, "bin", "nvcc") if home else shutil.which("nvcc")
    if not nvcc or not os.path.exists(nvcc):
        raise Missing(f"nvcc is not there (CUDA_HOME is {home}): install the CUDA toolkit or set CUDA_HOME")
    if not shutil.which("ninja"):
        raise Missing("ninja is not there, which PyTorch's extension builder needs: pip install ninja")
    return torch, cpp_extension


def build(cpp_extension, solution, folder, verbose):
    """The entry function, and the seconds that building took."""
    spec = solution["spec"]
    options = spec.get("compile_options") or {}
    for source in solution["sources"]:
        (folder / source["path"]).write_text(source["content"])
    suffixes = (".cu", ".cpp", ".cc", ".cxx", ".c")
    start = time.monotonic()
    module = cpp_extension.load(
        name="benchmark_kernel",
        sources=sorted(str(path) for path in folder.iterdir() if path.suffix in suffixes),
        extra_cflags=options.get("cflags", []),
        extra_cuda_cflags=options.get("cuda_cflags", ["-O3", "--use_fast_math"]),
        extra_ldflags=options.get("ld_flags", ["-lcuda"]),
        extra_include_paths=[str(folder)],
        build_directory=str(folder),
        verbose=verbose,
    )
    return getattr(module, spec["entry_point"].split("::")[1]), time.monotonic() - start


def make_inputs(torch, batch, length, seed):
    generator = torch.Generator(device="cuda").manual_seed(seed)

    def normal(*shape, scale=1.0):
        return torch.randn(*shape, device="cuda", generator=generator) * scale

    return [
        normal(batch, length, HIDDEN),
        normal(batch, length, HIDDEN),
        normal(INTERMEDIATE, HIDDEN, scale=HIDDEN**-0.5),
        normal(INTERMEDIATE),
        normal(HIDDEN, INTERMEDIATE, scale=INTERMEDIATE**-0.5),
        normal(HIDDEN),
        normal(batch, length, INTERMEDIATE),
        normal(batch, length, INTERMEDIATE),
    ]


def make_outputs(torch, inputs, value):
    shapes = [inputs[1].shape, inputs[2].shape, inputs[3].shape, inputs[4].shape, inputs[5].shape]
    return [torch.full(shape, value, device="cuda") for shape in shapes]


def rows_64(tensor):
    return tensor.reshape(-1, tensor.shape[-1]).double()


def reference_grad_pre(torch, inputs):
    """grad_output * weight2, times gelu'(intermediate), in float64."""
    grad_output, _, _, _, weight2, _, pre, _ = inputs
    x = rows_64(pre)
    c = math.sqrt(2 / math.pi)
    t = torch.tanh(c * (x + 0.044715 * x**3))
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)
    del x, t
    return (rows_64(grad_output) @ weight2.double()) * slope


def reference(torch, inputs):
    """The five gradients in float64, and the sums of magnitudes behind the last one."""
    grad_output, hidden, weight1, _, _, _, _, activated = inputs
    dy, grad_pre = rows_64(grad_output), reference_grad_pre(torch, inputs)
    results = [
        (grad_pre @ weight1.double()).reshape(hidden.shape),
        grad_pre.t() @ rows_64(hidden),
        grad_pre.sum(0),
        dy.t() @ rows_64(activated),
        dy.sum(0),
    ]
    return results, dy.abs().sum(0)


def share_within(difference, want, workload):
    return (difference <= workload["atol"] + workload["rtol"] * want.abs()).double().mean().item()


def tf32_match(torch, inputs, references, workload):
    """The smallest share of elements within the tolerances that PyTorch's own TF32 products reach."""
    grad_output, _, _, _, weight2, _, _, activated = inputs
    dy = grad_output.reshape(-1, HIDDEN)
    grad_pre = reference_grad_pre(torch, inputs).float()
    weight1, hidden = inputs[2], inputs[1].reshape(-1, HIDDEN)
    torch.backends.cuda.matmul.allow_tf32 = True
    products = [grad_pre @ weight1, grad_pre.t() @ hidden, dy.t() @ activated.reshape(-1, INTERMEDIATE)]
    torch.backends.cuda.matmul.allow_tf32 = False
    wanted = [references[0].reshape(-1, HIDDEN), references[1], references[3]]
    return min(share_within((got.double() - want).abs(), want, workload) for got, want in zip(products, wanted))


def judge(torch, outputs, references, magnitudes, workload, accuracy):
    """Errors of the five outputs, the smallest share of elements within the tolerances, and what is wrong."""
    errors, matched, wrong = [], 1.0, []
    for index, (name, got, want) in enumerate(zip(OUTPUTS, outputs, references)):
        difference = (got.double() - want).abs()
        if not bool(torch.isfinite(difference).all()):
            errors.append(math.nan)
            wrong.append(f"{name} is not finite")
            continue
        error = (difference.norm() / want.norm()).item()
        errors.append(error)
        if index < 4 and error > CLASSES[accuracy][index]:
            wrong.append(f"{name}: error {error:.2e} over {CLASSES[accuracy][index]:.1e}")
        if index == 4 and bool((difference > SUM_BOUND * magnitudes).any()):
            wrong.append(f"{name}: an element is off by more than 2^-20 of its sum of magnitudes")
        share = share_within(difference, want, workload)
        matched = min(matched, share)
        if workload["judged"] and share < workload["ratio"]:
            wrong.append(f"{name}: {100 * share:.2f} % of the elements within the tolerances")
    return errors, matched, wrong


def measure(torch, run, arguments, flush, warmup, repetitions):
    times = []
    for index in range(warmup + repetitions):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(400_000)  # clocks: some 200 us
        flush.zero_()
        start.record()
        run(*arguments)
        end.record()
        torch.cuda.synchronize()
        if index >= warmup:
            times.append(1000 * start.elapsed_time(end))
    return statistics.median(times), min(times)


def check_workload(torch, run, workload, options, flush):
    inputs = make_inputs(torch, workload["batch"], workload["length"], workload["batch"] * 65536 + workload["length"])
    outputs = make_outputs(torch, inputs, math.nan)
    run(*inputs, *outputs)
    torch.cuda.synchronize()
    references, magnitudes = reference(torch, inputs)
    errors, matched, wrong = judge(torch, outputs, references, magnitudes, workload, options.accuracy)
    tf32 = tf32_match(torch, inputs, references, workload)
    del references, magnitudes
    again = make_outputs(torch, inputs, math.nan)
    run(*inputs, *again)
    other = make_outputs(torch, inputs, math.nan)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run(*inputs, *other)
    torch.cuda.synchronize()
    for name, one, two, three in zip(OUTPUTS, outputs, again, other):
        if not torch.equal(one, two):
            wrong.append(f"{name}: a second run gives other bits")
        if not torch.equal(one, three):
            wrong.append(f"{name}: a run on another stream gives other bits")
    median, least = measure(torch, run, [*inputs, *outputs], flush, options.warmup, options.repetitions)
    return {
        "batch": workload["batch"],
        "seq_len": workload["length"],
        "tokens": workload["batch"] * workload["length"],
        "errors": dict(zip(OUTPUTS, errors)),
        "matched": matched,
        "matched_tf32": tf32,
        "median_us": median,
        "least_us": least,
        "wrong": wrong,
    }


def read_workloads(options):
    plain = {"atol": options.atol, "rtol": options.rtol, "ratio": 0.99, "judged": options.strict}
    if options.workloads is None:
        return [{"batch": batch, "length": length, **plain} for batch, length in SUITE]
    workloads = []
    for line in Path(options.workloads).read_text().splitlines():
        if line.strip():
            workload = json.loads(line)
            axes, tolerance = workload["axes"], workload.get("tolerance") or {}
            length = axes.get("seq_len", axes.get("sequence_length"))
            if "batch_size" not in axes or length is None:
                raise Missing(f"{options.workloads}: a workload has the axes {sorted(axes)}, not batch_size and seq_len")
            workloads.append(
                {
                    "batch": axes["batch_size"],
                    "length": length,
                    "atol": tolerance.get("max_atol", options.atol),
                    "rtol": tolerance.get("max_rtol", options.rtol),
                    "ratio": tolerance.get("required_matched_ratio", 0.99),
                    "judged": True,
                }
            )
    return workloads


def print_row(row):
    errors = " ".join(f"{row['errors'][name]:9.2e}" for name in OUTPUTS)
    verdict = "pass" if not row["wrong"] else "FAIL: " + "; ".join(row["wrong"])
    print(
        f"{row['batch']:5d} {row['seq_len']:5d} {row['tokens']:6d} {errors} {100 * row['matched']:8.3f} "
        f"{100 * row['matched_tf32']:7.3f} "
        f"{row['median_us']:9.1f} {row['least_us']:9.1f}  {verdict}",
        flush=True,
    )


def check(options):
    solution = load_solution(options.solution)
    torch, cpp_extension = import_torch()
    if options.accuracy is None:
        named = [name for name in CLASSES if f"_{name}_" in solution["name"]]
        options.accuracy = named[0] if named else "tf32"
    workloads = read_workloads(options)
    torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as temporary:
        run, seconds = build(cpp_extension, solution, Path(temporary), options.verbose)
        properties = torch.cuda.get_device_properties(0)
        print(
            f"{solution['name']} ({options.accuracy}) on {properties.name}, PyTorch {torch.__version__}, "
            f"CUDA {torch.version.cuda}: built in {seconds:.0f} s",
            flush=True,
        )
        names = " ".join(f"{name[-9:]:>9s}" for name in OUTPUTS)
        print(f"batch   seq tokens {names}  match %  TF32 % median us  least us")
        flush = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device="cuda")
        rows = []
        for workload in workloads:
            rows.append(check_workload(torch, run, workload, options, flush))
            print_row(rows[-1])
            torch.cuda.empty_cache()
    passed = sum(not row["wrong"] for row in rows)
    mean = math.exp(statistics.fmean(math.log(row["median_us"]) for row in rows))
    print(f"{passed} of {len(rows)} workloads pass; geometric mean of the medians {mean:.1f} us")
    if options.output is not None:
        result = {
            "solution": solution["name"],
            "accuracy": options.accuracy,
            "device": properties.name,
            "torch": torch.__version__,
            "build_seconds": seconds,
            "protocol": f"cold L2, events, median of {options.repetitions} after {options.warmup}",
            "rows": rows,
        }
        Path(options.output).write_text(json.dumps(result, indent=1) + "\n")
    return 0 if passed == len(rows) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("solution", help="solution.json of `mlpbwd export --sol-execbench`")
    parser.add_argument("--accuracy", choices=sorted(CLASSES), help="default: the class in the solution's name")
    parser.add_argument("--workloads", metavar="FILE", help="workload.jsonl of the data set")
    parser.add_argument("--atol", type=float, default=1e-2)
    parser.add_argument("--rtol", type=float, default=1e-2)
    parser.add_argument("--strict", action="store_true", help="without --workloads: judge by --atol and --rtol")
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--output", metavar="FILE", help="write the results as JSON")
    parser.add_argument("--verbose", action="store_true", help="show the compiler's commands")
    options = parser.parse_args()
    try:
        return check(options)
    except Missing as missing:
        print(f"sol_execbench_check: {missing}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
