/* capstan--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION capstan" to load this file. \quit

-- ----------------------------------------------------------------------
-- Type gtid_set
-- ----------------------------------------------------------------------

CREATE TYPE capstan.gtid_set;

CREATE FUNCTION capstan.gtid_set_in(pg_catalog.cstring) RETURNS capstan.gtid_set
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_set_in';
CREATE FUNCTION capstan.gtid_set_out(capstan.gtid_set) RETURNS pg_catalog.cstring
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_set_out';

-- The canonical text, as a varlena.
CREATE TYPE capstan.gtid_set (
    INPUT = capstan.gtid_set_in,
    OUTPUT = capstan.gtid_set_out,
    LIKE = pg_catalog.text,
    CATEGORY = 'U'
);
COMMENT ON TYPE capstan.gtid_set IS 'set of MySQL GTIDs, tagged ones included, in canonical form';

-- ----------------------------------------------------------------------
-- Catalog
-- ----------------------------------------------------------------------

CREATE TABLE capstan.pipeline (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                text NOT NULL UNIQUE,
    server              text NOT NULL,
    owner               oid NOT NULL,
    tables              text[] NOT NULL,
    snapshot            text NOT NULL DEFAULT 'incremental' CHECK (snapshot IN ('incremental', 'never')),
    zero_dates          text NOT NULL DEFAULT 'null' CHECK (zero_dates IN ('null', 'infinity', 'halt')),
    nul_bytes           text NOT NULL DEFAULT 'halt' CHECK (nul_bytes IN ('halt', 'strip', 'replace')),
    desired_state       text NOT NULL DEFAULT 'stopped' CHECK (desired_state IN ('running', 'stopped')),
    halted_by           bigint,
    replica_uuid        uuid NOT NULL,
    system_identifier   bigint NOT NULL,
    database_oid        oid NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE capstan.pipeline IS 'pipelines: one row per MySQL source replicated into this database';
COMMENT ON COLUMN capstan.pipeline.halted_by IS 'capstan.incident.id of the definite failure that halted it; NULL while it may run';
COMMENT ON COLUMN capstan.pipeline.replica_uuid IS 'how the source tells this pipeline from other replicas';
COMMENT ON COLUMN capstan.pipeline.system_identifier IS 'cluster the pipeline belongs to: a restored copy does not start by itself';

-- One narrow row per pipeline, updated in every apply transaction: no index on what changes, room for HOT.
CREATE TABLE capstan.pipeline_progress (
    pipeline_id         bigint PRIMARY KEY REFERENCES capstan.pipeline ON DELETE CASCADE,
    applied             capstan.gtid_set NOT NULL,
    source_uuid         uuid,
    source_commit_time  timestamptz,
    updated_at          timestamptz NOT NULL DEFAULT pg_catalog.now()
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
COMMENT ON TABLE capstan.pipeline_progress IS 'position of each pipeline; commits together with the rows it stands for';

CREATE TABLE capstan.pipeline_table (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline_id         bigint NOT NULL REFERENCES capstan.pipeline ON DELETE CASCADE,
    source_schema       text COLLATE "C" NOT NULL,
    source_table        text COLLATE "C" NOT NULL,
    target              regclass NOT NULL,
    key                 text[] NOT NULL,
    key_ordered         boolean NOT NULL,
    key_pageable        boolean NOT NULL,
    definition          text NOT NULL,
    state               text NOT NULL CHECK (state IN ('pending', 'copying', 'streaming')),
    generation          integer NOT NULL DEFAULT 1,
    rows_estimate       bigint,
    bytes_estimate      bigint,
    rows_copied         bigint NOT NULL DEFAULT 0,
    rows_inserted       bigint NOT NULL DEFAULT 0,
    rows_updated        bigint NOT NULL DEFAULT 0,
    rows_deleted        bigint NOT NULL DEFAULT 0,
    rows_missing        bigint NOT NULL DEFAULT 0,
    rows_existing       bigint NOT NULL DEFAULT 0,
    zero_dates_applied  bigint NOT NULL DEFAULT 0,
    nul_bytes_applied   bigint NOT NULL DEFAULT 0,
    lock_count          bigint NOT NULL DEFAULT 0,
    lock_tries          bigint NOT NULL DEFAULT 0,
    lock_wait_worst_us  bigint NOT NULL DEFAULT 0,
    lock_wait_total_us  bigint NOT NULL DEFAULT 0,
    lock_hold_worst_us  bigint NOT NULL DEFAULT 0,
    lock_hold_total_us  bigint NOT NULL DEFAULT 0,
    copy_started_at     timestamptz,
    copy_finished_at    timestamptz,
    UNIQUE (pipeline_id, source_schema, source_table)
) WITH (fillfactor = 50);
COMMENT ON TABLE capstan.pipeline_table IS 'captured tables of each pipeline: target, key, copy state, counters';
COMMENT ON COLUMN capstan.pipeline_table.definition IS 'what the source table looked like when it was captured; compared with every table map of the stream';
COMMENT ON COLUMN capstan.pipeline_table.key_ordered IS 'the key sorts alike on both sides: changes beyond the copied ranges are left to their range';

CREATE TABLE capstan.copied_range (
    table_id            bigint NOT NULL REFERENCES capstan.pipeline_table ON DELETE CASCADE,
    generation          integer NOT NULL,
    seq                 bigint NOT NULL,
    low                 bytea[],
    high                bytea[],
    round               bigint,
    worker              integer,
    gtid_set            capstan.gtid_set,
    rows                bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (table_id, generation, seq)
);
COMMENT ON TABLE capstan.copied_range IS 'key ranges (low exclusive, high inclusive, NULL without bound) of each table: planned, and with gtid_set copied';
COMMENT ON COLUMN capstan.copied_range.gtid_set IS 'the source transactions its rows contain; NULL while the range is only planned';

-- The GTID set of the round under way, from the copy side to the pipeline worker.
CREATE TABLE capstan.snapshot_round (
    pipeline_id         bigint PRIMARY KEY REFERENCES capstan.pipeline ON DELETE CASCADE,
    round               bigint NOT NULL,
    gtid_set            capstan.gtid_set
) WITH (fillfactor = 10);
COMMENT ON TABLE capstan.snapshot_round IS 'the exact pair of the current snapshot round of each pipeline';

CREATE TABLE capstan.incident (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline            text NOT NULL,
    occurred_at         timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    last_at             timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    occurrences         bigint NOT NULL DEFAULT 1,
    severity            text NOT NULL CHECK (severity IN ('halt', 'retry', 'warning', 'recovery')),
    class               text NOT NULL,
    sqlstate            text,
    message             text NOT NULL,
    detail              text,
    hint                text,
    gtid                text,
    source_table        text,
    source_statement    text,
    resolved_at         timestamptz,
    resolved_by         text,
    resolution          text
);
CREATE INDEX incident_pipeline ON capstan.incident (pipeline, id);
COMMENT ON TABLE capstan.incident IS 'every halt, retry, warning and recovery of a pipeline';

SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline_progress', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline_table', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.copied_range', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.incident', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline_table_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.incident_id_seq', '');
