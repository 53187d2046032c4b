return import("lib/weight_prepare.lua").check()
