return { base = "every architecture of these tests has it" }
