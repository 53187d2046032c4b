local pipeline = import "lib/pipeline16.lua"

return pipeline.speculative(pipeline.umma)
