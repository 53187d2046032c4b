local pipeline = import "lib/pipeline16.lua"

return pipeline.exact(pipeline.umma)
