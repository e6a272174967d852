/* capstan--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION capstan" to load this file. \quit

-- Workers act as a superuser on what is in this schema: who owns it could put something else there.
DO $$
BEGIN
    IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'capstan') THEN
        RAISE EXCEPTION 'schema "capstan" was there before the extension, and belongs to a role that is not a superuser'
            USING ERRCODE = 'insufficient_privilege', HINT = 'DROP SCHEMA capstan, or ALTER SCHEMA capstan OWNER TO a superuser.';
    END IF;
END
$$;

-- ----------------------------------------------------------------------
-- Type gtid_set
-- ----------------------------------------------------------------------

CREATE TYPE capstan.gtid_set;

CREATE FUNCTION capstan.gtid_set_in(pg_catalog.cstring) RETURNS capstan.gtid_set
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_set_in';
CREATE FUNCTION capstan.gtid_set_out(capstan.gtid_set) RETURNS pg_catalog.cstring
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_set_out';

CREATE FUNCTION capstan.gtid_set_recv(pg_catalog.internal) RETURNS capstan.gtid_set
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_set_recv';
CREATE FUNCTION capstan.gtid_set_send(capstan.gtid_set) RETURNS pg_catalog.bytea
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_set_send';

-- The canonical text, as a varlena.
CREATE TYPE capstan.gtid_set (
    INPUT = capstan.gtid_set_in,
    OUTPUT = capstan.gtid_set_out,
    RECEIVE = capstan.gtid_set_recv,
    SEND = capstan.gtid_set_send,
    LIKE = pg_catalog.text,
    CATEGORY = 'U'
);
COMMENT ON TYPE capstan.gtid_set IS 'set of MySQL GTIDs, tagged ones included, in canonical form';
COMMENT ON FUNCTION capstan.gtid_set_in(pg_catalog.cstring) IS 'I/O';
COMMENT ON FUNCTION capstan.gtid_set_out(capstan.gtid_set) IS 'I/O';
COMMENT ON FUNCTION capstan.gtid_set_recv(pg_catalog.internal) IS 'I/O';
COMMENT ON FUNCTION capstan.gtid_set_send(capstan.gtid_set) IS 'I/O';

-- A set is stored as its text: no function is needed in this direction.
CREATE CAST (capstan.gtid_set AS pg_catalog.text) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE CAST (pg_catalog.text AS capstan.gtid_set) WITH INOUT AS ASSIGNMENT;

CREATE FUNCTION capstan.gtid_union(a capstan.gtid_set, b capstan.gtid_set) RETURNS capstan.gtid_set
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_union';
COMMENT ON FUNCTION capstan.gtid_union(capstan.gtid_set, capstan.gtid_set) IS 'GTIDs that are in a, in b, or in both';
CREATE FUNCTION capstan.gtid_subtract(a capstan.gtid_set, b capstan.gtid_set) RETURNS capstan.gtid_set
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_subtract';
COMMENT ON FUNCTION capstan.gtid_subtract(capstan.gtid_set, capstan.gtid_set) IS 'GTIDs of a that are not in b';
CREATE FUNCTION capstan.gtid_intersect(a capstan.gtid_set, b capstan.gtid_set) RETURNS capstan.gtid_set
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_intersect';
COMMENT ON FUNCTION capstan.gtid_intersect(capstan.gtid_set, capstan.gtid_set) IS 'GTIDs that are in a and in b';
CREATE FUNCTION capstan.gtid_contains(a capstan.gtid_set, b capstan.gtid_set) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_contains';
COMMENT ON FUNCTION capstan.gtid_contains(capstan.gtid_set, capstan.gtid_set) IS 'is every GTID of b in a?';
CREATE FUNCTION capstan.gtid_contained(a capstan.gtid_set, b capstan.gtid_set) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_contained';
COMMENT ON FUNCTION capstan.gtid_contained(capstan.gtid_set, capstan.gtid_set) IS 'is every GTID of a in b?';
CREATE FUNCTION capstan.gtid_overlaps(a capstan.gtid_set, b capstan.gtid_set) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_overlaps';
COMMENT ON FUNCTION capstan.gtid_overlaps(capstan.gtid_set, capstan.gtid_set) IS 'is some GTID in both?';
CREATE FUNCTION capstan.gtid_count(a capstan.gtid_set) RETURNS pg_catalog.int8
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_count';
COMMENT ON FUNCTION capstan.gtid_count(capstan.gtid_set) IS 'number of GTIDs in the set';
CREATE FUNCTION capstan.gtid_is_empty(a capstan.gtid_set) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_is_empty';
COMMENT ON FUNCTION capstan.gtid_is_empty(capstan.gtid_set) IS 'is there no GTID in the set?';
CREATE FUNCTION capstan.gtid_eq(a capstan.gtid_set, b capstan.gtid_set) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_eq';
COMMENT ON FUNCTION capstan.gtid_eq(capstan.gtid_set, capstan.gtid_set) IS 'implementation of = operator';
CREATE FUNCTION capstan.gtid_ne(a capstan.gtid_set, b capstan.gtid_set) RETURNS pg_catalog.bool
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_ne';
COMMENT ON FUNCTION capstan.gtid_ne(capstan.gtid_set, capstan.gtid_set) IS 'implementation of <> operator';
CREATE FUNCTION capstan.gtid_hash(a capstan.gtid_set) RETURNS pg_catalog.int4
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_hash';
COMMENT ON FUNCTION capstan.gtid_hash(capstan.gtid_set) IS 'hash';
CREATE FUNCTION capstan.gtid_hash_extended(a capstan.gtid_set, seed pg_catalog.int8) RETURNS pg_catalog.int8
    LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_gtid_hash_extended';
COMMENT ON FUNCTION capstan.gtid_hash_extended(capstan.gtid_set, pg_catalog.int8) IS 'hash';

CREATE OPERATOR capstan.+ (LEFTARG = capstan.gtid_set, RIGHTARG = capstan.gtid_set,
    FUNCTION = capstan.gtid_union, COMMUTATOR = OPERATOR(capstan.+));
COMMENT ON OPERATOR capstan.+ (capstan.gtid_set, capstan.gtid_set) IS 'union';
CREATE OPERATOR capstan.- (LEFTARG = capstan.gtid_set, RIGHTARG = capstan.gtid_set,
    FUNCTION = capstan.gtid_subtract);
COMMENT ON OPERATOR capstan.- (capstan.gtid_set, capstan.gtid_set) IS 'difference';
CREATE OPERATOR capstan.* (LEFTARG = capstan.gtid_set, RIGHTARG = capstan.gtid_set,
    FUNCTION = capstan.gtid_intersect, COMMUTATOR = OPERATOR(capstan.*));
COMMENT ON OPERATOR capstan.* (capstan.gtid_set, capstan.gtid_set) IS 'intersection';
CREATE OPERATOR capstan.@> (LEFTARG = capstan.gtid_set, RIGHTARG = capstan.gtid_set,
    FUNCTION = capstan.gtid_contains, COMMUTATOR = OPERATOR(capstan.<@),
    RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel);
COMMENT ON OPERATOR capstan.@> (capstan.gtid_set, capstan.gtid_set) IS 'contains';
CREATE OPERATOR capstan.<@ (LEFTARG = capstan.gtid_set, RIGHTARG = capstan.gtid_set,
    FUNCTION = capstan.gtid_contained, COMMUTATOR = OPERATOR(capstan.@>),
    RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel);
COMMENT ON OPERATOR capstan.<@ (capstan.gtid_set, capstan.gtid_set) IS 'is contained by';
CREATE OPERATOR capstan.&& (LEFTARG = capstan.gtid_set, RIGHTARG = capstan.gtid_set,
    FUNCTION = capstan.gtid_overlaps, COMMUTATOR = OPERATOR(capstan.&&),
    RESTRICT = pg_catalog.contsel, JOIN = pg_catalog.contjoinsel);
COMMENT ON OPERATOR capstan.&& (capstan.gtid_set, capstan.gtid_set) IS 'overlaps';
CREATE OPERATOR capstan.= (LEFTARG = capstan.gtid_set, RIGHTARG = capstan.gtid_set,
    FUNCTION = capstan.gtid_eq, COMMUTATOR = OPERATOR(capstan.=), NEGATOR = OPERATOR(capstan.<>),
    RESTRICT = pg_catalog.eqsel, JOIN = pg_catalog.eqjoinsel, HASHES);
COMMENT ON OPERATOR capstan.= (capstan.gtid_set, capstan.gtid_set) IS 'equal';
CREATE OPERATOR capstan.<> (LEFTARG = capstan.gtid_set, RIGHTARG = capstan.gtid_set,
    FUNCTION = capstan.gtid_ne, COMMUTATOR = OPERATOR(capstan.<>), NEGATOR = OPERATOR(capstan.=),
    RESTRICT = pg_catalog.neqsel, JOIN = pg_catalog.neqjoinsel);
COMMENT ON OPERATOR capstan.<> (capstan.gtid_set, capstan.gtid_set) IS 'not equal';

-- No btree class: sets are only partly ordered, and an order of their texts would be taken for one of the sets.
CREATE OPERATOR CLASS capstan.gtid_set_ops DEFAULT FOR TYPE capstan.gtid_set USING hash AS
    OPERATOR 1 capstan.= ,
    FUNCTION 1 capstan.gtid_hash(capstan.gtid_set),
    FUNCTION 2 capstan.gtid_hash_extended(capstan.gtid_set, pg_catalog.int8);
COMMENT ON OPERATOR CLASS capstan.gtid_set_ops USING hash IS 'equality of GTID sets';

-- ----------------------------------------------------------------------
-- Catalog
-- ----------------------------------------------------------------------

CREATE TABLE capstan.pipeline (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                text NOT NULL UNIQUE,
    server              text NOT NULL,
    owner               regrole NOT NULL,
    tables              text[] NOT NULL,
    snapshot            text NOT NULL DEFAULT 'incremental' CHECK (snapshot IN ('incremental', 'consistent', 'never')),
    zero_dates          text NOT NULL DEFAULT 'null' CHECK (zero_dates IN ('null', 'infinity', 'halt')),
    nul_bytes           text NOT NULL DEFAULT 'halt' CHECK (nul_bytes IN ('halt', 'strip', 'replace')),
    shared_target       boolean NOT NULL DEFAULT false,
    desired_state       text NOT NULL DEFAULT 'stopped' CHECK (desired_state IN ('running', 'stopped')),
    halted_by           bigint,
    replica_uuid        uuid NOT NULL,
    system_identifier   bigint NOT NULL,
    database_oid        oid NOT NULL,
    created_at          timestamptz NOT NULL DEFAULT pg_catalog.now()
);
COMMENT ON TABLE capstan.pipeline IS 'pipelines: one row per MySQL source replicated into this database';
COMMENT ON COLUMN capstan.pipeline.halted_by IS 'capstan.incident.id of the definite failure that halted it; NULL while it may run';
COMMENT ON COLUMN capstan.pipeline.shared_target IS 'other pipelines with the same word may write its target tables, too: shards with keys of their own';
COMMENT ON COLUMN capstan.pipeline.replica_uuid IS 'how the source tells this pipeline from other replicas';
COMMENT ON COLUMN capstan.pipeline.system_identifier IS 'cluster the pipeline belongs to: a restored copy does not start by itself';

-- One narrow row per pipeline, updated in every apply transaction: no index on what changes, room for HOT.
CREATE TABLE capstan.pipeline_progress (
    pipeline_id         bigint PRIMARY KEY REFERENCES capstan.pipeline ON DELETE CASCADE,
    applied             capstan.gtid_set NOT NULL,
    applied_since       capstan.gtid_set,
    source_uuid         uuid,
    source_commit_time  timestamptz,
    witness_gtid        text,
    witness_commit_us   bigint,
    snapshot_started_at timestamptz,
    updated_at          timestamptz NOT NULL DEFAULT pg_catalog.now()
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
COMMENT ON TABLE capstan.pipeline_progress IS 'position of each pipeline; commits together with the rows it stands for';
COMMENT ON COLUMN capstan.pipeline_progress.applied_since IS
    'what was applied besides, where applied is too large to be written at each commit; capstan.pipeline_status shows both as one';
COMMENT ON COLUMN capstan.pipeline_progress.snapshot_started_at IS 'since when tables are being copied; NULL when all are';
COMMENT ON COLUMN capstan.pipeline_progress.witness_gtid IS
    'an applied transaction that is asked for once more at each connect: a source that was reset has another one under this GTID';

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
    defaults            bytea,
    state               text NOT NULL CHECK (state IN ('requested', 'pending', 'copying', 'streaming')),
    generation          integer NOT NULL DEFAULT 1,
    since               capstan.gtid_set,
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
    lock_read           bigint NOT NULL DEFAULT 0,
    lock_flush          bigint NOT NULL DEFAULT 0,
    lock_write          bigint NOT NULL DEFAULT 0,
    lock_wait_worst_us  bigint NOT NULL DEFAULT 0,
    lock_wait_total_us  bigint NOT NULL DEFAULT 0,
    lock_hold_worst_us  bigint NOT NULL DEFAULT 0,
    lock_hold_total_us  bigint NOT NULL DEFAULT 0,
    pause_worst_us      bigint NOT NULL DEFAULT 0,
    pause_total_us      bigint NOT NULL DEFAULT 0,
    copy_started_at     timestamptz,
    copy_finished_at    timestamptz,
    analyzed            boolean NOT NULL DEFAULT false,
    shared              boolean NOT NULL DEFAULT false,
    UNIQUE (pipeline_id, source_schema, source_table)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX pipeline_table_target ON capstan.pipeline_table (target) WHERE NOT shared;
CREATE INDEX pipeline_table_uncopied ON capstan.pipeline_table (pipeline_id) WHERE state <> 'streaming';
COMMENT ON TABLE capstan.pipeline_table IS 'captured tables of each pipeline: target, key, copy state, counters';
COMMENT ON COLUMN capstan.pipeline_table.definition IS 'what the source table looked like when it was captured; compared with every table map of the stream';
COMMENT ON COLUMN capstan.pipeline_table.defaults IS 'what row images without a column imply for it (binlog_row_image = MINIMAL); noted at the first start';
COMMENT ON COLUMN capstan.pipeline_table.generation IS 'number of its copy: a new one for each resync_table, and each add_table after remove_table, never the same again';
COMMENT ON COLUMN capstan.pipeline_table.since IS
    'what the source had executed before the definition was read, of a table that was added or resynced: none of that is applied to it from the log, its copy brings it';
COMMENT ON COLUMN capstan.pipeline_table.analyzed IS 'ANALYZE was run on it after its copy';
COMMENT ON COLUMN capstan.pipeline_table.shared IS 'other pipelines may write the target, too: a key that is there already halts';
COMMENT ON COLUMN capstan.pipeline_table.key_ordered IS 'the key sorts alike on both sides: changes beyond the copied ranges are left to their range';

-- What must outlive the row of a table that is captured no longer.
CREATE TABLE capstan.removed_table (
    pipeline_id         bigint NOT NULL REFERENCES capstan.pipeline ON DELETE CASCADE,
    source_schema       text COLLATE "C" NOT NULL,
    source_table        text COLLATE "C" NOT NULL,
    generation          integer NOT NULL,
    PRIMARY KEY (pipeline_id, source_schema, source_table)
);
COMMENT ON TABLE capstan.removed_table IS 'tables that were removed from each pipeline: should one be added again, its generations go on from here';
COMMENT ON COLUMN capstan.removed_table.generation IS 'the last one';

-- While a table is resynced, the new content is built here; what is in the target stays as it was until then.
CREATE TABLE capstan.table_shadow (
    table_id            bigint PRIMARY KEY REFERENCES capstan.pipeline_table ON DELETE CASCADE,
    shadow              regclass NOT NULL,
    columns             text[] NOT NULL,
    key                 text[] NOT NULL,
    exchanged           boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE capstan.table_shadow IS 'tables in which the new content of resynced tables is built until it is complete';
COMMENT ON COLUMN capstan.table_shadow.columns IS 'of the target: those that come from the source';
COMMENT ON COLUMN capstan.table_shadow.exchanged IS 'its content is in the target, it is only to be dropped';

-- The statements are for format(): %1$s is the target, %2$s the target that a foreign key refers to, as they are called now.
CREATE TABLE capstan.table_object (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline_id         bigint NOT NULL REFERENCES capstan.pipeline ON DELETE CASCADE,
    table_id            bigint NOT NULL REFERENCES capstan.pipeline_table ON DELETE CASCADE,
    kind                text NOT NULL CHECK (kind IN ('index', 'unique', 'foreign_key', 'check', 'default', 'auto_increment',
                                                      'generated', 'on_update', 'comment')),
    name                text COLLATE "C",
    definition          text NOT NULL,
    target_object       text COLLATE "C",
    statement           text,
    refers_to           bigint REFERENCES capstan.pipeline_table ON DELETE CASCADE,
    state               text NOT NULL CHECK (state IN ('pending', 'building', 'not_valid', 'done', 'failed', 'not_translated', 'left_to_user')),
    note                text,
    changed_at          timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
) WITH (fillfactor = 80);
CREATE INDEX table_object_table ON capstan.table_object (table_id);
CREATE INDEX table_object_pipeline ON capstan.table_object (pipeline_id);
CREATE INDEX table_object_refers_to ON capstan.table_object (refers_to) WHERE refers_to IS NOT NULL;
CREATE INDEX table_object_to_build ON capstan.table_object (pipeline_id, table_id) WHERE kind IN ('index', 'unique') AND state IN ('pending', 'building');
COMMENT ON TABLE capstan.table_object IS 'what else the captured tables have on the source, as it was when the pipeline was created, and what becomes of it here';
COMMENT ON COLUMN capstan.table_object.name IS 'on the source: of the index or constraint, or of the column; NULL: the table''s own';
COMMENT ON COLUMN capstan.table_object.definition IS 'what the source says';
COMMENT ON COLUMN capstan.table_object.target_object IS 'name of the index or constraint here';

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
CREATE INDEX copied_range_round ON capstan.copied_range (round);
COMMENT ON TABLE capstan.copied_range IS 'key ranges (low exclusive, high inclusive, NULL without bound) of each table: planned, and with gtid_set copied';
COMMENT ON COLUMN capstan.copied_range.gtid_set IS 'the source transactions its rows contain; NULL while the range is only planned';

-- The GTID set of the round under way, from the copy side to the pipeline worker.
CREATE TABLE capstan.snapshot_round (
    pipeline_id         bigint PRIMARY KEY REFERENCES capstan.pipeline ON DELETE CASCADE,
    round               bigint NOT NULL,
    gtid_set            capstan.gtid_set,
    starts              integer NOT NULL DEFAULT 0
) WITH (fillfactor = 10);
COMMENT ON TABLE capstan.snapshot_round IS 'the exact pair of the current snapshot round of each pipeline';
COMMENT ON COLUMN capstan.snapshot_round.starts IS 'how often the copy was begun, or gone on with, since a round was completed last';

CREATE TABLE capstan.incident (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline            text NOT NULL,
    occurred_at         timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    last_at             timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    occurrences         bigint NOT NULL DEFAULT 1,
    severity            text NOT NULL CHECK (severity IN ('halt', 'retry', 'warning', 'action')),
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
COMMENT ON TABLE capstan.incident IS 'every halt, retry and warning of a pipeline, and how it was resolved; and what was done to its tables, by whom and why (action)';

SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline_progress', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline_table', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.removed_table', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.table_shadow', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.table_object', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.copied_range', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.incident', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.pipeline_table_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.table_object_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('capstan.incident_id_seq', '');

-- ----------------------------------------------------------------------
-- Foreign-data wrapper: where connections and secrets are kept
-- ----------------------------------------------------------------------

CREATE FUNCTION capstan.capstan_fdw_validator(options pg_catalog.text[], catalog pg_catalog.oid) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_fdw_validator';
COMMENT ON FUNCTION capstan.capstan_fdw_validator(pg_catalog.text[], pg_catalog.oid) IS 'checks options of servers and user mappings';

CREATE FOREIGN DATA WRAPPER capstan VALIDATOR capstan.capstan_fdw_validator;
COMMENT ON FOREIGN DATA WRAPPER capstan IS 'MySQL sources of capstan pipelines; foreign tables are not served';

-- ----------------------------------------------------------------------
-- Pipelines
-- ----------------------------------------------------------------------

CREATE FUNCTION capstan.preflight(
    server pg_catalog.name,
    tables pg_catalog.text[],
    snapshot pg_catalog.text DEFAULT 'incremental',
    truncate_target pg_catalog.bool DEFAULT false,
    zero_dates pg_catalog.text DEFAULT 'null',
    nul_bytes pg_catalog.text DEFAULT 'halt',
    shared_target pg_catalog.bool DEFAULT false,
    OUT "check" pg_catalog.text,
    OUT status pg_catalog.text,
    OUT found pg_catalog.text,
    OUT wanted pg_catalog.text,
    OUT fix pg_catalog.text)
    RETURNS SETOF pg_catalog.record
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 50 AS 'MODULE_PATHNAME', 'capstan_preflight';
COMMENT ON FUNCTION capstan.preflight(pg_catalog.name, pg_catalog.text[], pg_catalog.text, pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.bool)
    IS 'checks everything that create_pipeline with these arguments would: what was found, what is wanted, what mends it; changes nothing';

CREATE FUNCTION capstan.create_pipeline(
    name pg_catalog.text,
    server pg_catalog.name,
    tables pg_catalog.text[],
    snapshot pg_catalog.text DEFAULT 'incremental',
    truncate_target pg_catalog.bool DEFAULT false,
    zero_dates pg_catalog.text DEFAULT 'null',
    nul_bytes pg_catalog.text DEFAULT 'halt',
    shared_target pg_catalog.bool DEFAULT false)
    RETURNS pg_catalog.int8
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_create_pipeline';
COMMENT ON FUNCTION capstan.create_pipeline(pg_catalog.text, pg_catalog.name, pg_catalog.text[], pg_catalog.text, pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.bool)
    IS 'creates a stopped pipeline, and the target tables that are missing';

CREATE FUNCTION capstan.start_pipeline(pipeline pg_catalog.text) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_start_pipeline';
COMMENT ON FUNCTION capstan.start_pipeline(pg_catalog.text) IS 'runs the pipeline from COMMIT on, also after it was halted';

CREATE FUNCTION capstan.resume_pipeline(pipeline pg_catalog.text, actor_note pg_catalog.text) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_resume_pipeline';
COMMENT ON FUNCTION capstan.resume_pipeline(pg_catalog.text, pg_catalog.text)
    IS 'runs a halted pipeline from COMMIT on; the note stays with the incident that had halted it';

CREATE FUNCTION capstan.stop_pipeline(pipeline pg_catalog.text) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_stop_pipeline';
COMMENT ON FUNCTION capstan.stop_pipeline(pg_catalog.text) IS 'stops the pipeline at COMMIT; it stays stopped until it is started again';

CREATE FUNCTION capstan.drop_pipeline(pipeline pg_catalog.text) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_drop_pipeline';
COMMENT ON FUNCTION capstan.drop_pipeline(pg_catalog.text) IS 'forgets a stopped pipeline; the target tables and its incidents stay';

CREATE FUNCTION capstan.adopt_pipeline(pipeline pg_catalog.text) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_adopt_pipeline';
COMMENT ON FUNCTION capstan.adopt_pipeline(pg_catalog.text) IS 'says that this restored copy of the pipeline is the one to go on';

CREATE FUNCTION capstan.add_table(pipeline pg_catalog.text, "table" pg_catalog.text, truncate_target pg_catalog.bool DEFAULT false) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_add_table';
COMMENT ON FUNCTION capstan.add_table(pg_catalog.text, pg_catalog.text, pg_catalog.bool)
    IS 'captures one more table of the source, with the checks of create_pipeline; it is copied while the others go on';

CREATE FUNCTION capstan.remove_table(pipeline pg_catalog.text, "table" pg_catalog.text) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_remove_table';
COMMENT ON FUNCTION capstan.remove_table(pg_catalog.text, pg_catalog.text) IS 'captures a table no longer; the target table stays';

CREATE FUNCTION capstan.resync_table(pipeline pg_catalog.text, "table" pg_catalog.text, reason pg_catalog.text) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_resync_table';
COMMENT ON FUNCTION capstan.resync_table(pg_catalog.text, pg_catalog.text, pg_catalog.text)
    IS 'copies a table anew while the others go on; readers see what was there until the new content is complete';

CREATE FUNCTION capstan.restart_snapshot(pipeline pg_catalog.text, reason pg_catalog.text) RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_restart_snapshot';
COMMENT ON FUNCTION capstan.restart_snapshot(pg_catalog.text, pg_catalog.text)
    IS 'copies every table anew, and streams from where the source is then';

CREATE FUNCTION capstan.table_ddl(server pg_catalog.name, "table" pg_catalog.text) RETURNS pg_catalog.text
    LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_table_ddl';
COMMENT ON FUNCTION capstan.table_ddl(pg_catalog.name, pg_catalog.text) IS 'the CREATE TABLE that create_pipeline would run for a table of the source';

CREATE FUNCTION capstan.wait_for_snapshot(pipeline pg_catalog.text, timeout pg_catalog.interval DEFAULT '1 day') RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_wait_for_snapshot';
COMMENT ON FUNCTION capstan.wait_for_snapshot(pg_catalog.text, pg_catalog.interval) IS 'waits until every table of the pipeline is copied, and has its indexes';

CREATE FUNCTION capstan.wait_for_source(pipeline pg_catalog.text, timeout pg_catalog.interval DEFAULT '1 minute') RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_wait_for_source';
COMMENT ON FUNCTION capstan.wait_for_source(pg_catalog.text, pg_catalog.interval) IS 'reads the position of the source now and waits until it is applied';

CREATE FUNCTION capstan.wait_for_gtid(pipeline pg_catalog.text, gtids capstan.gtid_set, timeout pg_catalog.interval DEFAULT '1 minute') RETURNS pg_catalog.void
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'capstan_wait_for_gtid';
COMMENT ON FUNCTION capstan.wait_for_gtid(pg_catalog.text, capstan.gtid_set, pg_catalog.interval) IS 'waits until these source transactions are applied';

CREATE FUNCTION capstan.create_constraints(
    pipeline pg_catalog.text,
    validate pg_catalog.bool DEFAULT true,
    OUT source_table pg_catalog.text,
    OUT kind pg_catalog.text,
    OUT name pg_catalog.text,
    OUT statement pg_catalog.text,
    OUT result pg_catalog.text)
    RETURNS SETOF pg_catalog.record
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'capstan_create_constraints';
COMMENT ON FUNCTION capstan.create_constraints(pg_catalog.text, pg_catalog.bool)
    IS 'makes defaults, identity columns, comments, CHECK constraints and foreign keys of the source that are not there yet, and validates them';

CREATE FUNCTION capstan.set_sequences(
    pipeline pg_catalog.text,
    OUT source_table pg_catalog.text,
    OUT "column" pg_catalog.text,
    OUT last_value pg_catalog.int8,
    OUT result pg_catalog.text)
    RETURNS SETOF pg_catalog.record
    LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 100 AS 'MODULE_PATHNAME', 'capstan_set_sequences';
COMMENT ON FUNCTION capstan.set_sequences(pg_catalog.text)
    IS 'sets the sequences of what was AUTO_INCREMENT on the source behind the greatest value that is there';

CREATE FUNCTION capstan.version() RETURNS pg_catalog.text
    LANGUAGE C STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_version';
COMMENT ON FUNCTION capstan.version() IS 'version of the loaded library';

-- ----------------------------------------------------------------------
-- Views
-- ----------------------------------------------------------------------

CREATE FUNCTION capstan.worker_stats(
    OUT pipeline_id pg_catalog.int8,
    OUT state pg_catalog.text,
    OUT state_since pg_catalog.timestamptz,
    OUT restart_at pg_catalog.timestamptz,
    OUT failures pg_catalog.int4,
    OUT pid pg_catalog.int4,
    OUT copy_workers pg_catalog.int4,
    OUT source_uuid pg_catalog.text,
    OUT transactions pg_catalog.int8,
    OUT rows_applied pg_catalog.int8,
    OUT commits pg_catalog.int8,
    OUT bytes_received pg_catalog.int8,
    OUT last_event_at pg_catalog.timestamptz,
    OUT source_commit_time pg_catalog.timestamptz,
    OUT caught_up_at pg_catalog.timestamptz,
    OUT wanted pg_catalog.bool,
    OUT source_connections pg_catalog.int4,
    OUT problem pg_catalog.text,
    OUT problem_hint pg_catalog.text)
    RETURNS SETOF pg_catalog.record
    LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 16 AS 'MODULE_PATHNAME', 'capstan_worker_stats';
COMMENT ON FUNCTION capstan.worker_stats() IS 'what shared memory knows of the pipelines of this database that the caller may see';

CREATE FUNCTION capstan.belongs_here(system_identifier pg_catalog.int8, database_oid pg_catalog.oid) RETURNS pg_catalog.bool
    LANGUAGE C STABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'capstan_belongs_here';
COMMENT ON FUNCTION capstan.belongs_here(pg_catalog.int8, pg_catalog.oid) IS 'are these the identifiers of this cluster and database?';

-- Rows are those of pipelines whose owner's rights the reader has; members of pg_monitor see all.
CREATE VIEW capstan.pipeline_status WITH (security_barrier = true) AS
SELECT
    p.name AS pipeline,
    p.server,
    pg_catalog.pg_get_userbyid(p.owner) AS owner,
    CASE
        WHEN p.halted_by IS NOT NULL THEN 'halted'
        WHEN NOT capstan.belongs_here(p.system_identifier, p.database_oid) THEN 'unadopted'
        WHEN w.state = 'streaming' AND w.pid IS NOT NULL AND EXISTS (
            SELECT FROM capstan.table_object o
            WHERE o.pipeline_id = p.id AND o.kind IN ('index', 'unique') AND o.state IN ('pending', 'building')) THEN 'indexing'
        WHEN w.pid IS NOT NULL THEN w.state
        WHEN p.desired_state = 'stopped' THEN 'stopped'
        WHEN pg_catalog.pg_is_in_recovery() THEN 'standby'
        WHEN w.state = 'retrying' THEN 'retrying'
        ELSE 'starting'
    END AS state,
    p.desired_state,
    CASE WHEN g.applied_since IS NULL THEN g.applied ELSE capstan.gtid_union(g.applied, g.applied_since) END AS applied,
    g.source_uuid,
    GREATEST(w.source_commit_time, g.source_commit_time) AS source_commit_time,
    CASE WHEN k.known_until IS NOT NULL
         THEN GREATEST(pg_catalog.clock_timestamp() - k.known_until, '0'::pg_catalog.interval)
    END AS lag,
    w.transactions,
    w.rows_applied,
    w.commits,
    w.bytes_received,
    t.tables,
    t.tables_copied,
    t.rows_copied,
    t.rows_estimate,
    w.state_since,
    w.last_event_at,
    w.restart_at,
    w.pid,
    w.copy_workers,
    w.source_connections,
    COALESCE('no worker is started: ' OPERATOR(pg_catalog.||) w.problem, e.message) AS last_error,
    CASE WHEN w.problem IS NULL THEN e.detail END AS last_error_detail,
    CASE WHEN w.problem IS NULL THEN e.hint ELSE w.problem_hint END AS last_error_hint,
    e.last_at AS last_error_at,
    e.id AS last_incident,
    p.created_at
FROM capstan.pipeline p
LEFT JOIN capstan.pipeline_progress g ON g.pipeline_id = p.id
LEFT JOIN capstan.worker_stats() w ON w.pipeline_id = p.id
CROSS JOIN LATERAL (SELECT GREATEST(w.caught_up_at, w.source_commit_time, g.source_commit_time) AS known_until) k
CROSS JOIN LATERAL (
    SELECT pg_catalog.count(*) AS tables,
           pg_catalog.count(*) FILTER (WHERE x.state = 'streaming') AS tables_copied,
           pg_catalog.sum(x.rows_copied)::pg_catalog.int8 AS rows_copied,
           pg_catalog.sum(x.rows_estimate)::pg_catalog.int8 AS rows_estimate
    FROM capstan.pipeline_table x WHERE x.pipeline_id = p.id) t
LEFT JOIN LATERAL (
    SELECT i.id, i.message, i.detail, i.hint, i.last_at
    FROM capstan.incident i
    WHERE i.pipeline = p.name AND i.occurred_at >= p.created_at AND i.severity IN ('halt', 'retry')
    ORDER BY i.last_at DESC, i.id DESC LIMIT 1) e ON true
WHERE pg_catalog.pg_has_role(p.owner, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');

COMMENT ON VIEW capstan.pipeline_status IS 'state, position, lag, throughput and last error of each pipeline';
COMMENT ON COLUMN capstan.pipeline_status.state IS
    'stopped, starting, waiting (for connections to the source, see capstan.max_source_connections), connecting, snapshot, indexing (streams, and builds indexes), streaming, retrying, halted, standby (it runs where this server replicates from, and here '
    'after a promotion), or unadopted (a restored copy, see capstan.adopt_pipeline)';
COMMENT ON COLUMN capstan.pipeline_status.desired_state IS 'running or stopped: what start_pipeline and stop_pipeline asked for';
COMMENT ON COLUMN capstan.pipeline_status.applied IS 'source transactions that are applied and committed';
COMMENT ON COLUMN capstan.pipeline_status.lag IS
    'how old the latest moment is up to which the target is known to hold everything of the source';
COMMENT ON COLUMN capstan.pipeline_status.transactions IS 'source transactions applied since the pipeline''s slot was taken; so the other counters of this view';
COMMENT ON COLUMN capstan.pipeline_status.source_connections IS 'connections to the source that it may have open';
COMMENT ON COLUMN capstan.pipeline_status.restart_at IS 'when a retrying pipeline tries again';

CREATE VIEW capstan.table_status WITH (security_barrier = true) AS
SELECT
    p.name AS pipeline,
    t.source_schema,
    t.source_table,
    t.target,
    t.state,
    t.generation,
    t.rows_copied,
    t.rows_estimate,
    r.rows_per_second,
    CASE WHEN t.state = 'copying' AND r.rows_per_second > 0
         THEN GREATEST(t.rows_estimate - t.rows_copied, 0) / r.rows_per_second * '1 second'::pg_catalog.interval
    END AS eta,
    t.rows_inserted,
    t.rows_updated,
    t.rows_deleted,
    t.rows_missing,
    t.rows_existing,
    t.zero_dates_applied,
    t.nul_bytes_applied,
    t.lock_count,
    t.lock_tries,
    t.lock_read,
    t.lock_flush,
    t.lock_write,
    t.lock_wait_worst_us::pg_catalog.float8 * '1 microsecond'::pg_catalog.interval AS lock_wait_worst,
    t.lock_wait_total_us::pg_catalog.float8 * '1 microsecond'::pg_catalog.interval AS lock_wait_total,
    t.lock_wait_total_us::pg_catalog.float8 / NULLIF(t.lock_count, 0) * '1 microsecond'::pg_catalog.interval AS lock_wait_avg,
    t.lock_hold_worst_us::pg_catalog.float8 * '1 microsecond'::pg_catalog.interval AS lock_hold_worst,
    t.lock_hold_total_us::pg_catalog.float8 * '1 microsecond'::pg_catalog.interval AS lock_hold_total,
    t.lock_hold_total_us::pg_catalog.float8 / NULLIF(t.lock_count, 0) * '1 microsecond'::pg_catalog.interval AS lock_hold_avg,
    t.pause_worst_us::pg_catalog.float8 * '1 microsecond'::pg_catalog.interval AS pause_worst,
    t.pause_total_us::pg_catalog.float8 * '1 microsecond'::pg_catalog.interval AS pause_total,
    t.key,
    t.copy_started_at,
    t.copy_finished_at
FROM capstan.pipeline p
JOIN capstan.pipeline_table t ON t.pipeline_id = p.id
CROSS JOIN LATERAL (
    SELECT t.rows_copied / NULLIF(pg_catalog.date_part('epoch',
               COALESCE(t.copy_finished_at, pg_catalog.clock_timestamp()) - t.copy_started_at), 0) AS rows_per_second) r
WHERE pg_catalog.pg_has_role(p.owner, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');

COMMENT ON VIEW capstan.table_status IS 'copy and stream of each captured table: state, progress, rows, locks on the source';
COMMENT ON COLUMN capstan.table_status.state IS 'requested (a worker has not begun with it yet), pending, copying, or streaming (its rows are copied)';
COMMENT ON COLUMN capstan.table_status.rows_estimate IS 'the source''s own estimate when the pipeline was created';
COMMENT ON COLUMN capstan.table_status.rows_missing IS 'changed or deleted rows that the target did not have; outside a copy this stays zero';
COMMENT ON COLUMN capstan.table_status.rows_existing IS 'inserted rows that the target had already; outside a copy this stays zero';
COMMENT ON COLUMN capstan.table_status.lock_read IS 'of lock_count: granted as LOCK TABLES READ, whose waiting holds nobody back';
COMMENT ON COLUMN capstan.table_status.lock_flush IS 'of lock_count: granted as FLUSH TABLES WITH READ LOCK (snapshot => ''consistent'': on all tables of the source)';
COMMENT ON COLUMN capstan.table_status.lock_write IS 'of lock_count: granted as LOCK TABLES WRITE';
COMMENT ON COLUMN capstan.table_status.lock_wait_avg IS 'wait for the source''s table lock, for each lock that was granted';

CREATE VIEW capstan.object_status WITH (security_barrier = true) AS
SELECT
    p.name AS pipeline,
    t.source_schema,
    t.source_table,
    o.kind,
    o.name,
    o.definition,
    CASE WHEN c.oid IS NOT NULL THEN
        pg_catalog.format(o.statement, pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname),
                          pg_catalog.quote_ident(rn.nspname) || '.' || pg_catalog.quote_ident(rc.relname))
    END AS statement,
    o.state,
    o.note,
    o.changed_at,
    o.id
FROM capstan.pipeline p
JOIN capstan.table_object o ON o.pipeline_id = p.id
JOIN capstan.pipeline_table t ON t.id = o.table_id
LEFT JOIN pg_catalog.pg_class c ON c.oid = t.target
LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN capstan.pipeline_table r ON r.id = o.refers_to
LEFT JOIN pg_catalog.pg_class rc ON rc.oid = r.target
LEFT JOIN pg_catalog.pg_namespace rn ON rn.oid = rc.relnamespace
WHERE pg_catalog.pg_has_role(p.owner, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');

COMMENT ON VIEW capstan.object_status IS 'indexes, constraints, defaults and comments of the source, and what becomes of each here';
COMMENT ON COLUMN capstan.object_status.definition IS 'what the source says';
COMMENT ON COLUMN capstan.object_status.statement IS 'what is run here; NULL where there is nothing of the same meaning';
COMMENT ON COLUMN capstan.object_status.state IS
    'pending (indexes are built after the copy, the rest by capstan.create_constraints), building, not_valid (there, but the rows were not '
    'looked at), done, failed, not_translated, or left_to_user (run the statement if you want it)';
COMMENT ON COLUMN capstan.object_status.note IS 'why it failed, is not translated or left; or what is different from the source';

CREATE VIEW capstan.incident_status WITH (security_barrier = true) AS
SELECT i.id, i.pipeline, i.occurred_at, i.last_at, i.occurrences, i.severity, i.class, i.sqlstate, i.message, i.detail,
       i.hint, i.gtid, i.source_table, i.source_statement, i.resolved_at, i.resolved_by, i.resolution
FROM capstan.incident i
LEFT JOIN capstan.pipeline p ON p.name = i.pipeline AND p.created_at <= i.occurred_at
WHERE pg_catalog.pg_has_role(p.owner, 'USAGE') OR pg_catalog.pg_has_role('pg_monitor', 'USAGE');

COMMENT ON VIEW capstan.incident_status IS 'incidents of the pipelines that the reader may see; those of dropped pipelines for pg_monitor only';

-- ----------------------------------------------------------------------
-- Rights: views for everybody (they filter rows), everything that connects or changes for nobody
-- ----------------------------------------------------------------------

GRANT USAGE ON SCHEMA capstan TO PUBLIC;

REVOKE ALL ON capstan.pipeline, capstan.pipeline_progress, capstan.pipeline_table, capstan.removed_table, capstan.table_shadow, capstan.table_object, capstan.copied_range,
    capstan.snapshot_round, capstan.incident FROM PUBLIC;
GRANT SELECT ON capstan.pipeline_status, capstan.table_status, capstan.object_status, capstan.incident_status TO PUBLIC;

REVOKE ALL ON FUNCTION
    capstan.preflight(pg_catalog.name, pg_catalog.text[], pg_catalog.text, pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.bool),
    capstan.create_pipeline(pg_catalog.text, pg_catalog.name, pg_catalog.text[], pg_catalog.text, pg_catalog.bool, pg_catalog.text, pg_catalog.text, pg_catalog.bool),
    capstan.start_pipeline(pg_catalog.text),
    capstan.resume_pipeline(pg_catalog.text, pg_catalog.text),
    capstan.stop_pipeline(pg_catalog.text),
    capstan.drop_pipeline(pg_catalog.text),
    capstan.adopt_pipeline(pg_catalog.text),
    capstan.add_table(pg_catalog.text, pg_catalog.text, pg_catalog.bool),
    capstan.remove_table(pg_catalog.text, pg_catalog.text),
    capstan.resync_table(pg_catalog.text, pg_catalog.text, pg_catalog.text),
    capstan.restart_snapshot(pg_catalog.text, pg_catalog.text),
    capstan.table_ddl(pg_catalog.name, pg_catalog.text),
    capstan.create_constraints(pg_catalog.text, pg_catalog.bool),
    capstan.set_sequences(pg_catalog.text),
    capstan.wait_for_snapshot(pg_catalog.text, pg_catalog.interval),
    capstan.wait_for_source(pg_catalog.text, pg_catalog.interval),
    capstan.wait_for_gtid(pg_catalog.text, capstan.gtid_set, pg_catalog.interval)
    FROM PUBLIC;
