#!/usr/bin/env python3
"""PyTorch peers of `mlpbwd bench --peers`: one peer a process, results as JSON lines on standard output.

Protocol, as in the tool: per repetition write a buffer of twice the L2, synchronise, replay one CUDA graph of the pass
between two events; `--repetitions` after `--warmup`, median. Inputs are standard normal, the weights divided by the
square root of their last dimension; fp32 tensors in, fp32 gradients out. Every peer's gradients are compared with eager
fp32 on the same inputs before it is timed ("relative_error": the largest Frobenius error of the five).

`python3 peers_torch.py --peer composition_fp16 --tokens 256,1024` runs one peer by itself.
"""

import argparse
import json
import math
import statistics
import sys
import warnings


def say(**fields):
    print(json.dumps(fields), flush=True)


def make_inputs(torch, tokens, hidden, intermediate, device):
    generator = torch.Generator(device=device)
    generator.manual_seed(tokens)

    def normal(rows, columns, scale=1.0):
        return torch.randn(rows, columns, device=device, generator=generator) * scale

    return {
        "grad_output": normal(tokens, hidden),
        "hidden_states": normal(tokens, hidden),
        "weight1": normal(intermediate, hidden, 1 / math.sqrt(hidden)),
        "weight2": normal(hidden, intermediate, 1 / math.sqrt(intermediate)),
        "intermediate": normal(tokens, intermediate),
        "activated": normal(tokens, intermediate),
    }


class Peers:
    """Each peer gives a function that takes the inputs and returns the five gradients (grad_hidden_states,
    grad_weight1, grad_bias1, grad_weight2, grad_bias2), to be run once or captured into a graph."""

    def __init__(self, torch, approximate, mode, device):
        self.torch = torch
        self.approximate = approximate
        self.mode = mode
        self.side = torch.cuda.Stream(device)

    def gelu_backward(self, grad, x):
        return self.torch.ops.aten.gelu_backward(grad, x, approximate=self.approximate)

    def compile(self, function):
        options = {} if self.mode == "default" else {"mode": self.mode}
        return self.torch.compile(function, dynamic=False, **options)

    def plain(self, grad_output, hidden_states, weight1, weight2, intermediate, activated):
        grad_act = grad_output @ weight2
        grad_intermediate = self.gelu_backward(grad_act, intermediate)
        return (
            grad_intermediate @ weight1,
            grad_intermediate.t() @ hidden_states,
            grad_intermediate.sum(0),
            grad_output.t() @ activated,
            grad_output.sum(0),
        )

    def with_fp16_casts(self, grad_output, hidden_states, weight1, weight2, intermediate, activated):
        torch = self.torch
        grad_output16 = grad_output.half()
        grad_act = (grad_output16 @ weight2.half()).float()
        grad_intermediate = self.gelu_backward(grad_act, intermediate)
        grad_intermediate16 = grad_intermediate.half()
        return (
            (grad_intermediate16 @ weight1.half()).float(),
            (grad_intermediate16.t() @ hidden_states.half()).float(),
            grad_intermediate.sum(0),
            (grad_output16.t() @ activated.half()).float(),
            torch.sum(grad_output, 0),
        )

    def eager_fp32(self):
        self.torch.set_float32_matmul_precision("highest")
        return self.plain

    def eager_tf32(self):
        self.torch.set_float32_matmul_precision("high")
        return self.plain

    def compile_tf32(self):
        self.torch.set_float32_matmul_precision("high")
        return self.compile(self.plain)

    def compile_fp16(self):
        return self.compile(self.with_fp16_casts)

    def composition_fp16(self):
        """cuBLAS fp16 GEMMs with fp32 outputs, dGELU with its cast and column sums fused by Inductor, the gradients of
        the weights on a side stream."""
        torch = self.torch

        def cast_and_sum(x):
            return x.half(), x.sum(0)

        def dgelu(grad, x):
            value = self.gelu_backward(grad, x)
            return value.half(), value.sum(0)

        cast_and_sum = self.compile(cast_and_sum)
        dgelu = self.compile(dgelu)

        def product(a, b):
            return torch.mm(a, b, out_dtype=torch.float32)

        def function(grad_output, hidden_states, weight1, weight2, intermediate, activated):
            main = torch.cuda.current_stream()
            grad_output16, grad_bias2 = cast_and_sum(grad_output)
            self.side.wait_stream(main)
            with torch.cuda.stream(self.side):
                activated16 = activated.half()
                grad_weight2 = product(grad_output16.t(), activated16)
                hidden_states16 = hidden_states.half()
                weight1_16 = weight1.half()
                prepared = self.side.record_event()
            weight2_16 = weight2.half()
            grad_act = product(grad_output16, weight2_16)
            grad_intermediate16, grad_bias1 = dgelu(grad_act, intermediate)
            self.side.wait_stream(main)
            with torch.cuda.stream(self.side):
                grad_weight1 = product(grad_intermediate16.t(), hidden_states16)
            main.wait_event(prepared)
            grad_hidden_states = product(grad_intermediate16, weight1_16)
            main.wait_stream(self.side)
            # What one stream allocated and the other reads stays referenced until both have joined.
            keep = (grad_output16, activated16, hidden_states16, weight1_16, weight2_16, grad_act, grad_intermediate16)
            return (grad_hidden_states, grad_weight1, grad_bias1, grad_weight2, grad_bias2), keep

        return function


def gradients_of(result):
    return result[0] if isinstance(result[0], tuple) else result


def relative_error(torch, found, expected):
    worst = 0.0
    for a, b in zip(found, expected):
        scale = torch.linalg.vector_norm(b.double()).item()
        error = torch.linalg.vector_norm(a.double() - b.double()).item()
        worst = max(worst, error / scale if scale > 0 else error)
    return worst


def capture(torch, function, arguments):
    """Warms up on a side stream, as capture asks for, then captures; the graph and what it writes to."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            result = function(*arguments)
        del result
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(*arguments)
    return graph, result


def measure(torch, graph, flush, repetitions, warmup):
    times = []
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    for repetition in range(warmup + repetitions):
        flush.zero_()
        torch.cuda.synchronize()
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        if repetition >= warmup:
            times.append(start.elapsed_time(end) * 1000.0)
    return times


def run_size(torch, options, tokens, device, flush):
    torch._dynamo.reset()
    approximate = "tanh" if options.activation == "tanh" else "none"
    inputs = make_inputs(torch, tokens, options.hidden_size, options.intermediate_size, device)
    arguments = list(inputs.values())
    peers = Peers(torch, approximate, options.mode, device)
    expected = peers.eager_fp32()(*arguments)
    function = getattr(peers, options.peer)()
    graph, result = capture(torch, function, arguments)
    graph.replay()
    torch.cuda.synchronize()
    error = relative_error(torch, gradients_of(result), expected)
    del expected
    times = measure(torch, graph, flush, options.repetitions, options.warmup)
    say(tokens=tokens, median_us=statistics.median(times), times_us=times, relative_error=error)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["composition_fp16", "compile_fp16", "compile_tf32", "eager_tf32", "eager_fp32"]
    parser.add_argument("--peer", required=True, choices=names)
    parser.add_argument("--tokens", required=True, help="comma-separated")
    parser.add_argument("--hidden-size", type=int, default=2048)
    parser.add_argument("--intermediate-size", type=int, default=8192)
    parser.add_argument("--activation", choices=["tanh", "erf"], default="tanh")
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--mode", default="default", help="of torch.compile, e.g. max-autotune-no-cudagraphs")
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        say(error=f"python3 has no torch ({error})")
        return 0
    if not torch.cuda.is_available():
        say(error=f"torch {torch.__version__} sees no CUDA device")
        return 0
    warnings.filterwarnings("ignore")
    torch.cuda.set_device(options.device)
    device = torch.device("cuda", options.device)
    properties = torch.cuda.get_device_properties(device)
    say(versions={"torch": torch.__version__, "cuda": torch.version.cuda, "device": properties.name,
                  "compile_mode": options.mode})
    flush = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device=device)
    with torch.no_grad():
        for tokens in (int(word) for word in options.tokens.split(",")):
            try:
                run_size(torch, options, tokens, device, flush)
            except Exception as error:  # one size that fails must not cost the others
                say(tokens=tokens, error=f"{type(error).__name__}: {str(error)[:500]}")
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
