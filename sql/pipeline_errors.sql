--
-- What bad arguments get, before anything is asked of a source: a SQLSTATE, and a hint that
-- says what to do.
--
-- No MySQL is needed: nothing listens on port 1.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS capstan;
CREATE SERVER err_source FOREIGN DATA WRAPPER capstan OPTIONS (host '127.0.0.1', port '1', connect_timeout '2');
CREATE USER MAPPING FOR CURRENT_USER SERVER err_source OPTIONS (user 'capstan', password 'secret');
RESET client_min_messages;

-- names
SELECT capstan.create_pipeline('', server => 'err_source', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
SELECT capstan.create_pipeline('two words', server => 'err_source', tables => '{shop.*}');
SELECT capstan.create_pipeline('-shop', server => 'err_source', tables => '{shop.*}');
SELECT capstan.create_pipeline(repeat('x', 64), server => 'err_source', tables => '{shop.*}');
SELECT capstan.create_pipeline(NULL, server => 'err_source', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
-- tables
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{}');
\echo SQLSTATE :SQLSTATE
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => NULL);
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.*,NULL}');
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop}');
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{.orders}');
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.}');
-- the other arguments
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.*}', snapshot => 'full');
\echo SQLSTATE :SQLSTATE
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.*}', snapshot => NULL);
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.*}', snapshot => 'never', truncate_target => true);
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.*}', truncate_target => NULL);
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.*}', zero_dates => '1970');
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.*}', nul_bytes => 'skip');
SELECT * FROM capstan.preflight('err_source', tables => '{shop}');
SELECT * FROM capstan.preflight('err_source', tables => '{shop.*}', nul_bytes => 'skip');
SELECT capstan.table_ddl('err_source', 'orders');
\echo SQLSTATE :SQLSTATE

-- servers and mappings
SELECT capstan.create_pipeline('shop', server => 'no_source', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
SELECT capstan.create_pipeline('shop', server => NULL, tables => '{shop.*}');
CREATE FOREIGN DATA WRAPPER err_wrapper;
CREATE SERVER err_other FOREIGN DATA WRAPPER err_wrapper;
SELECT capstan.create_pipeline('shop', server => 'err_other', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
DROP FOREIGN DATA WRAPPER err_wrapper CASCADE;
CREATE SERVER err_unmapped FOREIGN DATA WRAPPER capstan;
CREATE ROLE "regress_Capstan err" SUPERUSER;
SET ROLE "regress_Capstan err";
SELECT * FROM capstan.preflight('err_unmapped', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
RESET ROLE;
CREATE USER MAPPING FOR "regress_Capstan err" SERVER err_unmapped OPTIONS (password 'secret');
SET ROLE "regress_Capstan err";
SELECT * FROM capstan.preflight('err_unmapped', tables => '{shop.*}');
\echo SQLSTATE :SQLSTATE
RESET ROLE;
DROP SERVER err_unmapped CASCADE;
DROP ROLE "regress_Capstan err";

-- nobody listens there: no connection (the text is the client library's)
\set VERBOSITY sqlstate
SELECT capstan.create_pipeline('shop', server => 'err_source', tables => '{shop.*}');
SELECT * FROM capstan.preflight('err_source', tables => '{shop.*}');
SELECT capstan.table_ddl('err_source', 'shop.orders');
\set VERBOSITY default
SELECT count(*) FROM capstan.pipeline;

-- pipelines that do not exist
SELECT capstan.start_pipeline('shop');
\echo SQLSTATE :SQLSTATE
SELECT capstan.resume_pipeline('shop', 'seen to');
SELECT capstan.stop_pipeline('shop');
SELECT capstan.drop_pipeline('shop');
SELECT capstan.adopt_pipeline('shop');
SELECT capstan.add_table('shop', 'shop.orders');
\echo SQLSTATE :SQLSTATE
SELECT capstan.remove_table('shop', 'shop.orders');
SELECT capstan.resync_table('shop', 'shop.orders', 'why');
SELECT capstan.restart_snapshot('shop', 'why');
SELECT capstan.wait_for_snapshot('shop', timeout => '1 s');
SELECT capstan.wait_for_source('shop', timeout => '1 s');
SELECT capstan.wait_for_gtid('shop', '', timeout => '1 s');
SELECT capstan.start_pipeline(NULL);
\echo SQLSTATE :SQLSTATE
SELECT capstan.wait_for_gtid('shop', NULL);

DROP SERVER err_source CASCADE;
