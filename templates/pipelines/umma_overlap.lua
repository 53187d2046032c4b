local pipeline = import "lib/pipeline16.lua"

return pipeline.overlap(pipeline.umma)
