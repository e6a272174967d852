--
-- Start, stop, drop, adopt and the waits, seen from the catalog: what is written at once, what is
-- refused, what each view shows.
--
-- The pipeline is a row made by hand, since create_pipeline wants a MySQL.  Nothing here
-- depends on whether the library is preloaded.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS capstan;
CREATE SERVER ctl_source FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '1', connect_timeout '2');
CREATE USER MAPPING FOR CURRENT_USER SERVER ctl_source OPTIONS (user 'capstan', password 'secret');
RESET client_min_messages;
CREATE TABLE ctl_orders (id int PRIMARY KEY);
CREATE FUNCTION pg_temp.make(pipeline text, here bool DEFAULT true) RETURNS void LANGUAGE sql AS $$
    INSERT INTO capstan.pipeline (name, server, owner, tables, replica_uuid, system_identifier, database_oid)
    SELECT pipeline, 'ctl_source', current_user::regrole, '{shop.*}', gen_random_uuid(),
           system_identifier + CASE WHEN here THEN 0 ELSE 1 END,
           (SELECT oid FROM pg_database WHERE datname = current_database())
    FROM pg_control_system()
$$;
SELECT pg_temp.make('ctl_shop');
INSERT INTO capstan.pipeline_table (pipeline_id, source_schema, source_table, target, key, key_ordered, key_pageable, definition, state, rows_estimate)
SELECT id, 'shop', 'orders', 'ctl_orders', '{id}', true, true, '', 'pending', 1000 FROM capstan.pipeline;
INSERT INTO capstan.pipeline_progress (pipeline_id, applied, source_commit_time)
SELECT id, '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-100', now() - interval '1 hour' FROM capstan.pipeline;

SELECT pipeline, server, owner = current_user AS mine, state, desired_state, applied, lag >= interval '1 hour' AS lags,
       tables, tables_copied, rows_copied, rows_estimate, last_error, pid
FROM capstan.pipeline_status;
SELECT pipeline, source_schema, source_table, target, state, generation, rows_copied, rows_estimate, eta, key FROM capstan.table_status;

-- stopped already; stopping once more does no harm
SELECT capstan.stop_pipeline('ctl_shop');

-- what is not halted is not resumed
SELECT capstan.resume_pipeline('ctl_shop', actor_note => 'seen to');
\echo SQLSTATE :SQLSTATE

-- tables that are not captured, or are already; arguments
SELECT capstan.resync_table('ctl_shop', 'shop.people', 'why');
\echo SQLSTATE :SQLSTATE
SELECT capstan.remove_table('ctl_shop', 'orders');
SELECT capstan.resync_table('ctl_shop', 'shop.orders', ' ');
\echo SQLSTATE :SQLSTATE
SELECT capstan.resync_table('ctl_shop', 'shop.orders', NULL);
SELECT capstan.resync_table('ctl_shop', NULL, 'why');
SELECT capstan.restart_snapshot('ctl_shop', '');
SELECT capstan.add_table('ctl_shop', 'orders');
\echo SQLSTATE :SQLSTATE
SELECT capstan.add_table('ctl_shop', 'shop.orders', truncate_target => NULL);
-- removed: its target stays, who did it is kept, a halt over it is resolved
BEGIN;
WITH i AS (INSERT INTO capstan.incident (pipeline, severity, class, message, source_table)
           VALUES ('ctl_shop', 'halt', 'x', 'x', 'shop.orders') RETURNING id)
UPDATE capstan.pipeline SET halted_by = i.id FROM i;
SELECT capstan.remove_table('ctl_shop', 'shop.orders');
SELECT count(*) FROM capstan.table_status;
SELECT count(*) FROM ctl_orders;
SELECT severity, class, message, source_table, resolved_by = current_user AS by_me, resolution FROM capstan.incident ORDER BY id;
SELECT halted_by FROM capstan.pipeline;
-- nothing is left to be copied anew
\set VERBOSITY sqlstate
SELECT capstan.restart_snapshot('ctl_shop', 'why');
\set VERBOSITY default
ROLLBACK;

-- waiting for what is there already returns, whatever the state
SELECT capstan.wait_for_gtid('ctl_shop', '3e11fa47-71ca-11e1-9e33-c80aa9429562:50-60', timeout => '0 s');
SELECT capstan.wait_for_gtid('ctl_shop', '', timeout => '0 s');
-- for what will not come, it is an error at once
SELECT capstan.wait_for_gtid('ctl_shop', '3e11fa47-71ca-11e1-9e33-c80aa9429562:101', timeout => '1 hour');
\echo SQLSTATE :SQLSTATE
SELECT capstan.wait_for_snapshot('ctl_shop');
\echo SQLSTATE :SQLSTATE
SELECT capstan.wait_for_source('ctl_shop');
SELECT capstan.wait_for_gtid('ctl_shop', 'nonsense');
\echo SQLSTATE :SQLSTATE
SELECT capstan.wait_for_gtid('ctl_shop', '', timeout => '-1 s');
\echo SQLSTATE :SQLSTATE
-- under REPEATABLE READ the wait sees what is committed or done meanwhile
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT applied FROM capstan.pipeline_status;
UPDATE capstan.pipeline_table SET state = 'streaming';
SELECT capstan.wait_for_snapshot('ctl_shop');
ROLLBACK;

-- halted: the reason, and how to go on
WITH i AS (INSERT INTO capstan.incident (pipeline, severity, class, sqlstate, message, detail, hint)
           VALUES ('ctl_shop', 'halt', 'ddl_on_captured_table', 'CA001', 'a statement changed a captured table', 'ALTER TABLE shop.orders', 'Drop the pipeline and create it again.')
           RETURNING id)
UPDATE capstan.pipeline SET halted_by = i.id, desired_state = 'running' FROM i;
SELECT pipeline, state, desired_state, last_error, last_error_detail, last_error_hint FROM capstan.pipeline_status;
SELECT capstan.wait_for_gtid('ctl_shop', '3e11fa47-71ca-11e1-9e33-c80aa9429562:101');
\echo SQLSTATE :SQLSTATE
SELECT capstan.wait_for_source('ctl_shop');
-- an empty note is none
SELECT capstan.resume_pipeline('ctl_shop', actor_note => E' \t\n');
\echo SQLSTATE :SQLSTATE
SELECT capstan.resume_pipeline('ctl_shop', actor_note => NULL);
\echo SQLSTATE :SQLSTATE
-- not while it is to run
SELECT capstan.drop_pipeline('ctl_shop');
\echo SQLSTATE :SQLSTATE
SELECT capstan.stop_pipeline('ctl_shop');
SELECT state, desired_state FROM capstan.pipeline_status;

-- a second pipeline of that name, or on that target, cannot even be written by hand
\set VERBOSITY terse
SELECT pg_temp.make('ctl_shop');
SELECT pg_temp.make('ctl_copy', here => false);
INSERT INTO capstan.pipeline_table (pipeline_id, source_schema, source_table, target, key, key_ordered, key_pageable, definition, state)
SELECT id, 'shop', 'orders', 'ctl_orders', '{id}', true, true, '', 'pending' FROM capstan.pipeline WHERE name = 'ctl_copy';
\set VERBOSITY default

-- restored into another cluster: neither starts nor waits before it is adopted
SELECT pipeline, state, desired_state FROM capstan.pipeline_status ORDER BY 1;
SELECT replica_uuid AS before FROM capstan.pipeline WHERE name = 'ctl_copy' \gset
UPDATE capstan.pipeline SET desired_state = 'running' WHERE name = 'ctl_copy';
SELECT capstan.wait_for_gtid('ctl_copy', '3e11fa47-71ca-11e1-9e33-c80aa9429562:101');
\echo SQLSTATE :SQLSTATE
UPDATE capstan.pipeline SET desired_state = 'stopped' WHERE name = 'ctl_copy';
SELECT capstan.adopt_pipeline('ctl_copy');
SELECT pipeline, state, desired_state FROM capstan.pipeline_status ORDER BY 1;
SELECT replica_uuid <> :'before' AS another_replica FROM capstan.pipeline WHERE name = 'ctl_copy';
SELECT capstan.adopt_pipeline('ctl_copy');
SELECT capstan.drop_pipeline('ctl_copy');

-- an old pipeline's errors are not the next one's of the same name
SELECT capstan.drop_pipeline('ctl_shop');
SELECT severity, message, resolved_at IS NOT NULL AS resolved, resolved_by = current_user AS by_me, resolution FROM capstan.incident_status;
SELECT count(*) FROM capstan.pipeline_status;
SELECT count(*) FROM capstan.pipeline_table;
SELECT count(*) FROM capstan.pipeline_progress;
SELECT pg_temp.make('ctl_shop');
SELECT pipeline, state, last_error, lag, rows_copied FROM capstan.pipeline_status;
SELECT capstan.drop_pipeline('ctl_shop');
-- the target stays
SELECT count(*) FROM ctl_orders;

DELETE FROM capstan.incident;
DROP TABLE ctl_orders;
DROP SERVER ctl_source CASCADE;
