-- Behaviour: each source type has the default Postgres type that doc/types.md names, and a table made by the
-- DDL takes the source's columns without a complaint.
-- Why: a default that the type map itself refuses would make create_pipeline fail on its own table.
-- Not here: values (values.sql).

CREATE SCHEMA test_defaults;
SET search_path = test_defaults, public;
\set VERBOSITY terse
SELECT default_types('
	a tinyint; au tinyint unsigned; b smallint; bu smallint unsigned; c mediumint; cu mediumint unsigned;
	d int; du int unsigned; e bigint; eu bigint unsigned;
	f decimal(10,2); g decimal(65,30); h decimal(65,0); hu decimal(10,2) unsigned; i float; j double;
	k bit(1); l bit(17); m bit(64); n date; o datetime; p datetime(6); q timestamp; r timestamp(3);
	s time; t time(2); u year;
	v char(10); w varchar(80); w1 varchar(80) collate=latin1_swedish_ci; w2 varchar(80) collate=utf8mb3_general_ci; w0 char(0);
	x tinytext; x2 text; x4 longtext; y enum(''a'',''b''); z set(''a'',''b'');
	a1 binary(8); a2 varbinary(8); a3 blob; a4 longblob; a5 json; a6 geometry; a7 vector; a8 hyperloglog');

SELECT ddl('id int unsigned key; v varchar(80) notnull; n datetime(3) notnull', 'app', 'plain');

-- Names: case kept, quoted where they must be, any character; no other name for a reserved one.
SELECT ddl('`select` int; `YES` int; `sequence` int; `a.b` int; `with space` int; `quote"x` int; `Größe` int; `end\` int; k2 varchar(5) key; k1 char(5) key',
		   'Odd Schema', 'or"der');

-- Every default column is accepted, with and without a key.
CREATE TABLE everything_spec (spec text);
INSERT INTO everything_spec VALUES ('
	k1 bigint unsigned key; k2 varchar(20) key;
	a tinyint; au tinyint unsigned; b smallint; bu smallint unsigned; c mediumint; cu mediumint unsigned;
	d int; du int unsigned; e bigint; eu bigint unsigned;
	f decimal(10,2); g decimal(65,30); h decimal(65,0); hu decimal(10,2) unsigned; i float; j double;
	k bit(1); l bit(17); m bit(64); n date; o datetime; p datetime(6); q timestamp; r timestamp(3);
	s time; t time(2); u year;
	v char(10); w varchar(80); w1 varchar(80) collate=latin1_swedish_ci; w2 varchar(80) collate=utf8mb3_general_ci; w0 char(0);
	x tinytext; x2 text; x4 longtext; y enum(''a'',''b''); z set(''a'',''b'');
	a1 binary(8); a2 varbinary(8); a3 blob; a4 longblob; a5 json');
SELECT ddl(spec, 'test_defaults', 'everything') FROM everything_spec \gexec
SELECT complaints(spec, 'everything') FROM everything_spec;
SELECT attname, format_type(atttypid, atttypmod), attnotnull, collname
FROM pg_attribute LEFT JOIN pg_collation c ON c.oid = attcollation
WHERE attrelid = 'everything'::regclass AND attnum > 0 AND (attnotnull OR attname IN ('w', 'y')) ORDER BY attnum;
SELECT key_index(spec, 'everything') FROM everything_spec;

-- What has no default type is refused before anything is created.
\set VERBOSITY default
SELECT ddl('id int key; g geometry; v vector; o hyperloglog', 'app', 't');
