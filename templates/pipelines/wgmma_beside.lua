local pipeline = import "lib/pipeline16.lua"

return pipeline.beside(pipeline.wgmma)
