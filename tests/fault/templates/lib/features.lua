return { host = "a processor" }
