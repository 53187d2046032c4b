return import("lib/split_pipeline.lua").pipeline("overlap", "umma")
