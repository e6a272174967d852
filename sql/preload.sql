--
-- With and without shared_preload_libraries (two expected results): starting a pipeline needs it, and says
-- so; everything that only reads or writes the catalog works without.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS capstan;
CREATE SERVER pre_source FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '1', connect_timeout '2');
CREATE USER MAPPING FOR CURRENT_USER SERVER pre_source OPTIONS (user 'capstan', password 'secret');
RESET client_min_messages;
INSERT INTO capstan.pipeline (name, server, owner, tables, replica_uuid, system_identifier, database_oid)
SELECT 'pre_shop', 'pre_source', current_user::regrole, '{shop.*}', gen_random_uuid(), system_identifier,
       (SELECT oid FROM pg_database WHERE datname = current_database())
FROM pg_control_system();

-- transactional: rolled back, nothing has started
BEGIN;
SELECT capstan.start_pipeline('pre_shop');
\echo SQLSTATE :SQLSTATE
SELECT desired_state FROM capstan.pipeline WHERE name = 'pre_shop';
ROLLBACK;
SELECT state, desired_state FROM capstan.pipeline_status;
SELECT count(*) FROM capstan.worker_stats();

-- start clears a halt
WITH i AS (INSERT INTO capstan.incident (pipeline, severity, class, message) VALUES ('pre_shop', 'halt', 'x', 'x') RETURNING id)
UPDATE capstan.pipeline SET halted_by = i.id, desired_state = 'running' FROM i;
BEGIN;
SELECT capstan.start_pipeline('pre_shop');
SELECT halted_by FROM capstan.pipeline;
SELECT resolved_by = current_user AS by_me, resolution FROM capstan.incident;
ROLLBACK;
SELECT state, desired_state FROM capstan.pipeline_status;
-- resume does, too, and notes why; for the pipeline of this incident alone, and also if it was stopped since
SELECT capstan.stop_pipeline('pre_shop');
INSERT INTO capstan.incident (pipeline, severity, class, message) VALUES ('pre_other', 'halt', 'x', 'x'), ('pre_shop', 'warning', 'x', 'x');
BEGIN;
SELECT capstan.resume_pipeline('pre_shop', actor_note => 'mended it, ticket ''7''');
SELECT halted_by, desired_state FROM capstan.pipeline;
SELECT pipeline, severity, resolved_at IS NOT NULL AS resolved, resolved_by = current_user AS by_me, resolution FROM capstan.incident ORDER BY id;
-- it is not halted any more
SELECT capstan.resume_pipeline('pre_shop', 'once more');
\echo SQLSTATE :SQLSTATE
ROLLBACK;
SELECT state, desired_state FROM capstan.pipeline_status;
SELECT count(*) FROM capstan.incident WHERE resolved_at IS NOT NULL;

-- without a mapping the worker could not connect: known before it starts
DROP USER MAPPING FOR CURRENT_USER SERVER pre_source;
\set VERBOSITY sqlstate
SELECT capstan.start_pipeline('pre_shop');
\set VERBOSITY default
SELECT state, desired_state FROM capstan.pipeline_status;

SELECT capstan.drop_pipeline('pre_shop');
DELETE FROM capstan.incident;
DROP SERVER pre_source CASCADE;
