local step = import "lib/mma_pipeline.lua"

return {
  name = "mma_overlap",
  doc = "as mma_speculative, on two streams: what fc2_dgrad does not read is converted beside it, and the weight gradients run beside the data gradients",
  needs = { "mma_sync" },
  accuracies = { "tf32", "bf16" },
  rank = 30,
  buffers = step.buffers(),
  steps = {
    step.scale("scale_sample"),
    step.convert("convert_first", "convert_first", step.first),
    step.rescale("rescale_first", "rescale_first", step.first),
    step.fc2_dgrad,
    step.on(1, step.convert("convert_rest", "convert_rest", step.rest), { "rescale_first" }),
    step.on(1, step.rescale("rescale_rest", "rescale_rest", step.rest), {}),
    step.on(1, step.fc2_wgrad, {}),
    step.on(0, step.fc1_dgrad, { "rescale_rest" }),
    step.on(1, step.fc1_wgrad, { "fc2_dgrad" }),
    step.bias_reduce(),
  },
}
