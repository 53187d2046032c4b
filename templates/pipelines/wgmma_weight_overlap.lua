return import("lib/weight_pipeline.lua").overlap()
