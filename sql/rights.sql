--
-- Who may do what: nobody but a superuser until something is granted; then what the pipeline's owner
-- may; secrets for no one.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS capstan;
CREATE SERVER rights_source FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '1', connect_timeout '2');
CREATE USER MAPPING FOR CURRENT_USER SERVER rights_source OPTIONS (user 'capstan', password 'secret');
RESET client_min_messages;
CREATE ROLE regress_capstan_owner;
CREATE ROLE regress_capstan_member IN ROLE regress_capstan_owner;
CREATE ROLE regress_capstan_other;
CREATE ROLE regress_capstan_monitor IN ROLE pg_monitor;
INSERT INTO capstan.pipeline (name, server, owner, tables, replica_uuid, system_identifier, database_oid)
SELECT 'rights_shop', 'rights_source', 'regress_capstan_owner', '{shop.*}', gen_random_uuid(), system_identifier,
       (SELECT oid FROM pg_database WHERE datname = current_database())
FROM pg_control_system();
INSERT INTO capstan.incident (pipeline, severity, class, message) VALUES ('rights_shop', 'warning', 'x', 'private message'), ('another', 'warning', 'x', 'of a dropped pipeline');
CREATE TABLE rights_orders (id int PRIMARY KEY);
INSERT INTO capstan.pipeline_table (pipeline_id, source_schema, source_table, target, key, key_ordered, key_pageable, definition, state)
SELECT id, 'shop', 'orders', 'rights_orders', '{id}', true, true, '', 'pending' FROM capstan.pipeline;

-- what everybody may execute: nothing that connects or changes
SELECT p.oid::regprocedure AS function FROM pg_proc p
WHERE pronamespace = 'capstan'::regnamespace AND has_function_privilege('regress_capstan_other', p.oid, 'EXECUTE')
ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT c.relname AS relation FROM pg_class c
WHERE relnamespace = 'capstan'::regnamespace AND relkind IN ('r', 'v', 'S')
  AND has_table_privilege('regress_capstan_other', c.oid, 'SELECT, INSERT, UPDATE, DELETE, TRUNCATE')
ORDER BY c.relname COLLATE "C";

-- a stranger
SET ROLE regress_capstan_other;
SELECT pipeline FROM capstan.pipeline_status;
SELECT source_table FROM capstan.table_status;
SELECT message FROM capstan.incident_status;
SELECT * FROM capstan.pipeline;
\echo SQLSTATE :SQLSTATE
SELECT capstan.start_pipeline('rights_shop');
\echo SQLSTATE :SQLSTATE
SELECT capstan.resume_pipeline('rights_shop', 'seen to');
SELECT * FROM capstan.preflight('rights_source', tables => '{shop.*}');
SELECT capstan.create_pipeline('mine', server => 'rights_source', tables => '{shop.*}');
SELECT capstan.wait_for_snapshot('rights_shop');
-- a function of the reader's cannot look behind the row filter
CREATE FUNCTION pg_temp.leak(text) RETURNS bool LANGUAGE plpgsql COST 0.0000001 AS $$ BEGIN RAISE NOTICE 'leaked: %', $1; RETURN true; END $$;
SELECT pipeline FROM capstan.pipeline_status WHERE pg_temp.leak(pipeline);
SELECT message FROM capstan.incident_status WHERE pg_temp.leak(message);
DROP FUNCTION pg_temp.leak(text);
RESET ROLE;

-- a monitor sees everything, and may do nothing
SET ROLE regress_capstan_monitor;
SELECT pipeline, owner, state FROM capstan.pipeline_status;
SELECT source_table FROM capstan.table_status;
SELECT message FROM capstan.incident_status ORDER BY id;
SELECT capstan.stop_pipeline('rights_shop');
RESET ROLE;

-- EXECUTE is not enough: the pipeline's owner, or a member of it
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA capstan TO regress_capstan_other, regress_capstan_owner;
SET ROLE regress_capstan_other;
SELECT capstan.start_pipeline('rights_shop');
\echo SQLSTATE :SQLSTATE
SELECT capstan.resume_pipeline('rights_shop', 'seen to');
SELECT capstan.stop_pipeline('rights_shop');
SELECT capstan.drop_pipeline('rights_shop');
SELECT capstan.adopt_pipeline('rights_shop');
SELECT capstan.add_table('rights_shop', 'shop.people');
SELECT capstan.remove_table('rights_shop', 'shop.orders');
SELECT capstan.resync_table('rights_shop', 'shop.orders', 'why');
SELECT capstan.restart_snapshot('rights_shop', 'why');
SELECT capstan.wait_for_source('rights_shop');
-- who may wait need not own it
SELECT capstan.wait_for_snapshot('rights_shop');
-- USAGE on the server
SELECT * FROM capstan.preflight('rights_source', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER rights_source TO regress_capstan_other;
SET ROLE regress_capstan_other;
-- a mapping
SELECT * FROM capstan.preflight('rights_source', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
CREATE USER MAPPING FOR CURRENT_USER SERVER rights_source OPTIONS (user 'capstan');
-- and a password in it
SELECT * FROM capstan.preflight('rights_source', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
ALTER USER MAPPING FOR CURRENT_USER SERVER rights_source OPTIONS (ADD password '');
SELECT * FROM capstan.preflight('rights_source', tables => '{shop.*}');
ALTER USER MAPPING FOR CURRENT_USER SERVER rights_source OPTIONS (SET password 'secret');
-- then the connection is tried
\set VERBOSITY sqlstate
SELECT * FROM capstan.preflight('rights_source', tables => '{shop.*}');
\set VERBOSITY default
RESET ROLE;

SET ROLE regress_capstan_member;
SELECT pipeline, owner FROM capstan.pipeline_status;
SELECT message FROM capstan.incident_status;
SELECT capstan.stop_pipeline('rights_shop');
SELECT capstan.drop_pipeline('rights_shop');
RESET ROLE;
SELECT count(*) FROM capstan.pipeline;

-- everything of the extension is described
SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS undescribed
FROM pg_depend d
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
  AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'capstan')
  AND d.classid IN ('pg_proc'::regclass, 'pg_type'::regclass, 'pg_operator'::regclass, 'pg_class'::regclass, 'pg_foreign_data_wrapper'::regclass)
  AND obj_description(d.objid, d.classid::regclass::name) IS NULL
  AND NOT EXISTS (SELECT FROM pg_type t WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid AND (t.typelem <> 0 OR t.typrelid <> 0))
  AND NOT EXISTS (SELECT FROM pg_class c WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind NOT IN ('r', 'v'))
ORDER BY 1;
-- library and SQL objects are of one version
SELECT extversion = capstan.version() AS same FROM pg_extension WHERE extname = 'capstan';
-- no function of it is left with the defaults of volatility and parallelism by oversight
SELECT p.oid::regprocedure FROM pg_proc p
WHERE pronamespace = 'capstan'::regnamespace AND proparallel = 'u' AND provolatile <> 'v' ORDER BY 1;

DELETE FROM capstan.incident;
DROP TABLE rights_orders;
SET client_min_messages = warning;
DROP SERVER rights_source CASCADE;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA capstan FROM regress_capstan_other, regress_capstan_owner;
DROP ROLE regress_capstan_owner, regress_capstan_member, regress_capstan_other, regress_capstan_monitor;
