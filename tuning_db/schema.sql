-- Version 1 of the tuning database. db_open sets application_id and user_version in the same transaction.
-- The checks repeat what the C code refuses with a better message, so that no other writer can get round them.

-- Sources and machine code, stored once by the SHA-256 of their bytes.
CREATE TABLE blobs (
    hash   TEXT NOT NULL PRIMARY KEY CHECK (length(hash) = 64),
    format TEXT NOT NULL CHECK (format IN ('cubin', 'ptx', 'elf-so', 'emulated-so', 'source')),
    bytes  BLOB NOT NULL
) STRICT;

-- What the runtime looks up. The plan names its blobs by hash inside its JSON.
CREATE TABLE plans (
    device_name        TEXT NOT NULL,
    arch               TEXT NOT NULL CHECK (arch <> ''),
    units              INTEGER NOT NULL CHECK (units >= 0),
    compute_capability INTEGER NOT NULL CHECK (compute_capability >= 0),
    accuracy           INTEGER NOT NULL CHECK (accuracy BETWEEN 0 AND 2),
    hidden_size        INTEGER NOT NULL CHECK (hidden_size >= 0 AND hidden_size % 64 = 0),
    intermediate_size  INTEGER NOT NULL CHECK (intermediate_size >= 0 AND intermediate_size % 64 = 0),
    tokens             INTEGER NOT NULL CHECK (tokens >= 0),
    min_tokens         INTEGER NOT NULL CHECK (min_tokens >= 0),
    max_tokens         INTEGER NOT NULL CHECK (max_tokens >= min_tokens),
    pipeline           TEXT NOT NULL CHECK (pipeline <> ''),
    parameters         TEXT NOT NULL,
    plan               TEXT NOT NULL,
    median_us          REAL CHECK (median_us > 0), -- NULL: never measured
    measurement        TEXT NOT NULL,
    origin             TEXT NOT NULL CHECK (origin IN ('tune', 'import', 'build')),
    date               TEXT NOT NULL,
    PRIMARY KEY (device_name, arch, units, compute_capability, accuracy, hidden_size, intermediate_size, tokens)
) STRICT;

-- Every variant tried, also the failures.
CREATE TABLE candidates (
    device_name       TEXT NOT NULL,
    arch              TEXT NOT NULL CHECK (arch <> ''),
    units             INTEGER NOT NULL CHECK (units >= 0),
    accuracy          INTEGER NOT NULL CHECK (accuracy BETWEEN 0 AND 2),
    hidden_size       INTEGER NOT NULL CHECK (hidden_size >= 0),
    intermediate_size INTEGER NOT NULL CHECK (intermediate_size >= 0),
    tokens            INTEGER NOT NULL CHECK (tokens >= 0),
    pipeline          TEXT NOT NULL,
    slot              TEXT NOT NULL,
    kernel            TEXT NOT NULL,
    parameters        TEXT NOT NULL,
    source_hash       TEXT NOT NULL,
    outcome           TEXT NOT NULL,
    reason            TEXT NOT NULL,
    median_us         REAL CHECK (median_us > 0), -- NULL: not timed
    measurement       TEXT NOT NULL,
    code_hash         TEXT NOT NULL,
    date              TEXT NOT NULL,
    PRIMARY KEY (device_name, arch, units, accuracy, hidden_size, intermediate_size, tokens, pipeline, slot, kernel,
                 parameters)
) STRICT;
CREATE INDEX candidates_source ON candidates (source_hash);

-- Compile cache: which machine code a source became.
CREATE TABLE compiled (
    source_hash TEXT NOT NULL CHECK (length(source_hash) = 64),
    arch        TEXT NOT NULL,
    compiler    TEXT NOT NULL,
    code_hash   TEXT NOT NULL REFERENCES blobs (hash),
    log         TEXT NOT NULL,
    PRIMARY KEY (source_hash, arch, compiler)
) STRICT;
CREATE INDEX compiled_code ON compiled (code_hash);
