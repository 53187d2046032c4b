local step = import "lib/mma_pipeline.lua"

return {
  name = "mma_exact",
  doc = "exact scales in a pass of their own, conversion, then the four GEMMs one after the other",
  needs = { "mma_sync" },
  accuracies = { "tf32", "bf16" },
  rank = 20,
  buffers = step.buffers(),
  steps = {
    step.scale("scale_exact"),
    step.convert("convert", "convert_all", step.all),
    step.fc2_dgrad,
    step.fc2_wgrad,
    step.fc1_dgrad,
    step.fc1_wgrad,
    step.bias_reduce(),
  },
}
