local step = import "lib/mma_pipeline.lua"

return {
  name = "mma_speculative",
  doc = "scales guessed from a sample, conversion that checks them, a second conversion where one missed, then the GEMMs",
  needs = { "mma_sync" },
  accuracies = { "tf32", "bf16" },
  rank = 10,
  buffers = step.buffers(),
  steps = {
    step.scale("scale_sample"),
    step.convert("convert", "convert_all", step.all),
    step.rescale("rescale", "rescale_all", step.all),
    step.fc2_dgrad,
    step.fc2_wgrad,
    step.fc1_dgrad,
    step.fc1_wgrad,
    step.bias_reduce(),
  },
}
