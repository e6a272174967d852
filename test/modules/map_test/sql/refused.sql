-- Behaviour: a target that cannot hold the source's values, or on which keys would not be what they are on the
-- source, is refused with a sentence that says what to do; all complaints come at once.
-- Why: what preflight lets through, the stream meets at three in the morning.
-- Not here: whether the source itself is fit (preflight's checks of the source).

CREATE SCHEMA test_refused;
SET search_path = test_refused, public;
\set VERBOSITY default
\pset format unaligned
\pset tuples_only on

-- Types without a converter between them, and details that are too narrow.
CREATE TABLE types (a text, b integer, c smallint, d numeric(10,2), e timestamp, f timestamptz, g real, h bytea, i json, j date);
SELECT complaints('a int; b bigint; c int unsigned; d varchar(5); e timestamp; f datetime; g double; h text; i text; j datetime', 'types');
CREATE TABLE narrow (a numeric(10,2), b numeric(12,3), c varchar(9), d timestamp(2), e timestamptz(0), f interval(1), g interval hour to second,
	h bit(7), i boolean, j uuid, k numeric(5), l varchar(4), m numeric(19,0), n time(0), o varchar(100), p bit(9));
SELECT complaints('a decimal(10,3); b decimal(10,0); c varchar(10); d datetime(3); e timestamp(1); f time(2); g time;
	h bit(8); i bit(2); j binary(15); k mediumint unsigned; l enum(''long'',''longer''); m bigint unsigned; n time(1); o tinytext; p bit(8)', 'narrow');
-- The same, just wide enough.
CREATE TABLE wide (a numeric(10,3), b numeric(13,3), c varchar(10), d timestamp(3), e timestamptz(1), f interval(2), g interval,
	h bit(8), i bytea, j uuid, k numeric(8), l varchar(6), m numeric(20,0), n time(1), o varchar(255), p varchar(3));
SELECT complaints('a decimal(10,3); b decimal(10,0); c varchar(10); d datetime(3); e timestamp(1); f time(2); g time;
	h bit(8); i bit(2); j binary(16); k mediumint unsigned; l enum(''long'',''longer''); m bigint unsigned; n time(1); o tinytext; p set(''a'',''b'')', 'wide');

-- Columns: missing, of another case, wanting a value, generated.
CREATE TABLE cols (id int, "Name" text, must text NOT NULL, has_default text NOT NULL DEFAULT '', ident int GENERATED ALWAYS AS IDENTITY,
	g int GENERATED ALWAYS AS (id * 2) STORED, g2 int GENERATED ALWAYS AS (id * 2) STORED, own int GENERATED ALWAYS AS (id + 1) STORED);
ALTER TABLE cols ADD gone int NOT NULL;
ALTER TABLE cols DROP COLUMN gone;
SELECT complaints('id int; name text; gone int; g int generated; g2 int', 'cols');
SELECT complaints('id int; Name text; must text; ident int', 'cols');
CREATE TABLE own_key (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);
SELECT complaints('id int key', 'own_key');
-- A table map does not tell what is generated: the schema was asked before.
SELECT complaints('@streamed; id int; Name text; must text; g int; g2 int', 'cols');
SELECT put('id int; Name text; must text; g int generated', 'cols', '{int 4, text n, text m, int 8}');
SELECT * FROM cols;

-- Kinds of table.
CREATE VIEW a_view AS SELECT 1 AS id;
CREATE UNLOGGED TABLE unlogged (id int PRIMARY KEY);
CREATE TEMP TABLE temporary (id int PRIMARY KEY);
SELECT complaints('id int', 'a_view');
SELECT complaints('id int key', 'unlogged');
SELECT complaints('id int key', 'temporary');
CREATE TABLE parent (id int, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE part1 PARTITION OF parent FOR VALUES FROM (0) TO (10);
CREATE UNLOGGED TABLE part2 PARTITION OF parent FOR VALUES FROM (10) TO (20);
SELECT complaints('id int key', 'parent');
DROP TABLE part2;
ALTER TABLE part1 ADD CONSTRAINT part1_late UNIQUE (id) DEFERRABLE;
SELECT complaints('id int key', 'parent');
ALTER TABLE part1 DROP CONSTRAINT part1_late;
SELECT complaints('id int key', 'parent');
SELECT put('id int key', 'parent', '{int 5}');
CREATE FOREIGN DATA WRAPPER nowhere;
CREATE SERVER nowhere FOREIGN DATA WRAPPER nowhere;
CREATE FOREIGN TABLE foreign_table (id int, v text) SERVER nowhere;
SELECT complaints('id int key; v text', 'foreign_table');

-- Row security: refused only where it would apply.
CREATE TABLE rls (id int PRIMARY KEY);
ALTER TABLE rls ENABLE ROW LEVEL SECURITY;
SELECT complaints('id int key', 'rls');
CREATE ROLE map_test_writer;
GRANT ALL ON rls TO map_test_writer;
GRANT USAGE ON SCHEMA test_refused TO map_test_writer;
SET ROLE map_test_writer;
SELECT complaints('id int key', 'rls');
RESET ROLE;

-- Key indexes.
CREATE TABLE k (a int, b int, v text);
SELECT complaints('a int key; b int key; v text', 'k');
CREATE UNIQUE INDEX k_more ON k (a, b, v);
CREATE UNIQUE INDEX k_less ON k (a);
CREATE INDEX k_not_unique ON k (a, b);
CREATE UNIQUE INDEX k_partial ON k (a, b) WHERE a > 0;
CREATE UNIQUE INDEX k_expression ON k (a, (b + 0));
SELECT complaints('a int key; b int key; v text', 'k');
ALTER TABLE k ADD CONSTRAINT k_late UNIQUE (a, b) DEFERRABLE INITIALLY IMMEDIATE;
SELECT complaints('a int key; b int key; v text', 'k');
ALTER TABLE k DROP CONSTRAINT k_late;
CREATE UNIQUE INDEX k_good ON k (b, a) INCLUDE (v);
SELECT complaints('a int key; b int key; v text', 'k');
SELECT key_index('a int key; b int key; v text', 'k');
ALTER TABLE k ADD PRIMARY KEY (b, a);
SELECT key_index('a int key; b int key; v text', 'k');
CREATE TABLE k2 (a int, b int);
INSERT INTO k2 VALUES (1, 1), (1, 1);
\set VERBOSITY terse
CREATE UNIQUE INDEX CONCURRENTLY k2_invalid ON k2 (a);
\set VERBOSITY default
SELECT complaints('a int key; b int', 'k2');
CREATE TABLE k4 (id int) PARTITION BY RANGE (id);
CREATE TABLE k4_part PARTITION OF k4 DEFAULT;
CREATE UNIQUE INDEX k4_parent_only ON ONLY k4 (id);
SELECT complaints('id int key', 'k4');
-- Any deferrable unique index, also beside the key.
CREATE TABLE k3 (id int PRIMARY KEY, u int UNIQUE DEFERRABLE, EXCLUDE (u WITH =) DEFERRABLE);
SELECT complaints('id int key; u int', 'k3');

-- Text keys are compared by bytes.
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE tk (k text COLLATE any_case PRIMARY KEY);
SELECT complaints('k varchar(10) key', 'tk');
CREATE TABLE tk2 (k text COLLATE "C");
CREATE UNIQUE INDEX tk2_any_case ON tk2 (k COLLATE any_case);
SELECT complaints('k varchar(10) key', 'tk2');
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS citext SCHEMA public;
RESET client_min_messages;
CREATE TABLE tk3 (k citext PRIMARY KEY, v citext COLLATE "C");
SELECT complaints('k varchar(10) key; v text', 'tk3');
CREATE DOMAIN ci_domain AS citext;
CREATE TABLE tk4 (k ci_domain PRIMARY KEY);
SELECT complaints('k varchar(10) key', 'tk4');
CREATE TABLE tk5 (k varchar(10) PRIMARY KEY, v text COLLATE any_case);
SELECT complaints('k varchar(10) key; v text', 'tk5');
CREATE TABLE gk (k int GENERATED ALWAYS AS (1) STORED PRIMARY KEY);
SELECT complaints('k int generated key', 'gk');

-- Enum types and text arrays.
CREATE TYPE two AS ENUM ('a', 'b');
CREATE TABLE en (e two, s text[]);
SELECT complaints('e enum(''a'',''b''); s set(''a'',''b'')', 'en');
SELECT complaints('e enum(''a'',''c''); s set('''',''b'')', 'en');

-- The source's own: names, character sets, labels.
SELECT source_complaints('`xmin` int; `' || repeat('n', 63) || '` int; `' || repeat('n', 64) || '` int; `' || repeat('é', 32) || '` int');
SELECT source_complaints('`' || repeat('é', 31) || 'aa` int; `' || repeat('é', 31) || 'ab` int; `' || repeat('é', 31) || 'a` int');
SELECT source_complaints('a varchar(5) collate=gbk_chinese_ci; b text collate=9999; c enum(x''ff''); d enum(x''00''); e enum(x''d6d0'',x''d6'') collate=gbk_bin');
SELECT source_complaints('e enum('''',''a'') key; s set(''b'','''') key; f enum('''',''a'')');
SELECT source_complaints('@nonames; a int');
SELECT source_complaints(string_agg('c' || g || ' int', ';')) FROM generate_series(1, 1601) g;
SELECT source_complaints('a geometry; b vector; c sparkle');

-- Raised: one error with all of them; the source's faults decide the SQLSTATE.
\set VERBOSITY verbose
\set SHOW_CONTEXT never
CREATE FUNCTION sqlstate_of(spec text, target regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM key_index(spec, target);
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ': ' || SQLERRM;
END $$;
SELECT sqlstate_of('e int; s int', 'en');
SELECT sqlstate_of('e sparkle; s int', 'en');
SELECT sqlstate_of('@nonames; e int', 'en');
\set VERBOSITY default
SELECT key_index('e int; s int', 'en');

DROP TABLE rls;
REVOKE ALL ON SCHEMA test_refused FROM map_test_writer;
DROP ROLE map_test_writer;

-- A database in another encoding.
CREATE DATABASE map_test_latin1 TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C';
\set here :DBNAME
\connect map_test_latin1
CREATE EXTENSION map_test;
SELECT source_complaints('a int');
\connect :here
DROP DATABASE map_test_latin1;
