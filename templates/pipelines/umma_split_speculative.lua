return import("lib/split_pipeline.lua").pipeline("speculative", "umma")
