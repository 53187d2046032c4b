return import("lib/split_pipeline.lua").pipeline("exact", "umma")
