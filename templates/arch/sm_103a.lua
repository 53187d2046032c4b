return {
    name = "sm_103a",
    doc = "NVIDIA Blackwell Ultra: B300, GB300",
    backend = "cuda",
    compiler = "nvrtc",
    target = "sm_103a",
    -- Same tensor cores for 16-bit types, same shared memory and same HBM3e bandwidth (8 TB/s) as its parent:
    -- DGX B300 datasheet, CUDA C++ Programming Guide (10.3). As many multiprocessors are in use (148).
    -- L2 and clock of this part are stated nowhere: its parent's stand for them in predictions.
    parent = "sm_100a",
    compute_capability = 103,
    ship = true,
}
