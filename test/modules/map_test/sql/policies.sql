-- Behaviour: what Postgres has no value for (zero and partial dates, U+0000 in text and jsonb) stops, or becomes
-- what the operator chose, and is counted; in a primary key nothing is substituted.
-- Why: a NULL or a blank put in silently is a lie; in a key it makes two rows one.

CREATE SCHEMA test_policies;
SET search_path = test_policies, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
\set VERBOSITY terse
\pset null 'NULL'

CREATE TABLE d (id int, d date, dt timestamp(6), ts timestamptz);
CREATE TABLE d_strict (id int, d date NOT NULL, dt timestamp(6) NOT NULL, ts timestamptz NOT NULL);
\set cols 'id int; d date; dt datetime(6); ts timestamp'
\set zero '{int 1, datetime 0000-00-00, datetime 0000-00-00 00:00:00, timestamp 0}'
\set partial '{int 2, datetime 2015-00-21, datetime 2015-05-00 01:02:03.5, timestamp 1000000}'
\set time_of_no_day '{int 3, null, datetime 0000-00-00 12:00:00, null}'

-- zero_dates null
SELECT put(:'cols', 'd', :'zero', 'null'), put(:'cols', 'd', :'partial', 'null'), put(:'cols', 'd', :'time_of_no_day', 'null');
SELECT * FROM d;
\set VERBOSITY default
SELECT put(:'cols', 'd_strict', :'zero', 'null');
\set VERBOSITY terse
SELECT put(:'cols', 'd_strict', '{int 1, datetime 2024-01-01, datetime 2024-01-01, timestamp 0}', 'null');
-- zero_dates infinity: before everything, zero or partial
TRUNCATE d;
SELECT put(:'cols', 'd', :'zero', 'infinity'), put(:'cols', 'd', :'partial', 'infinity'), put(:'cols', 'd', :'time_of_no_day', 'infinity');
SELECT put(:'cols', 'd_strict', :'zero', 'infinity');
SELECT * FROM d;
SELECT * FROM d_strict;
-- zero_dates halt
\set VERBOSITY default
SELECT put(:'cols', 'd', :'zero', 'halt');
\set VERBOSITY terse
SELECT put(:'cols', 'd', :'partial', 'halt');
SELECT put(:'cols', 'd', '{null, null, null, timestamp 0}', 'halt');
-- In a key: zero can be -infinity, since only it can; nothing can be NULL.
CREATE TABLE dk (d date PRIMARY KEY);
SELECT put('d date key', 'dk', '{datetime 0000-00-00}', 'null');
SELECT put('d date key', 'dk', '{datetime 0000-00-00}', 'infinity');
SELECT put('d date key', 'dk', '{datetime 2015-00-21}', 'infinity');
SELECT * FROM dk;
-- A year 0 that has a month and a day is a date.
TRUNCATE d;
SELECT put('d date', 'd', '{datetime 0000-01-01}', 'halt');
SELECT d FROM d;

-- nul_bytes
CREATE TABLE t (id int, a text, b varchar(20), j jsonb);
\set cols 'id int; a text; b varchar(20) collate=latin1_swedish_ci; j json'
\set VERBOSITY default
SELECT put(:'cols', 't', ARRAY['int 1', 'bytes \x610062', 'text x', 'json "x"'], 'null', 'halt');
\set VERBOSITY terse
SELECT put(:'cols', 't', ARRAY['int 1', 'text x', 'bytes \x00e9', 'json "x"'], 'null', 'halt');
SELECT put(:'cols', 't', ARRAY['int 1', 'text x', 'text x', 'json "a\u0000b"'], 'null', 'halt');
SELECT put(:'cols', 't', ARRAY['int 2', 'text x', 'text y', 'json "a\\u0000b"'], 'null', 'halt');
SELECT put(:'cols', 't', ARRAY['int 3', 'bytes \x61000062', 'bytes \x00e900', 'json {"a": "\u0000x\\\u0000\"\\u0000", "b": ["\u0000\u0000"]}'], 'null', 'strip');
SELECT put(:'cols', 't', ARRAY['int 4', 'bytes \x61000062', 'bytes \x00e900', 'json {"a": "\u0000x\\\u0000\"\\u0000", "b": ["\u0000\u0000"]}'], 'null', 'replace');
SELECT put(:'cols', 't', ARRAY['int 5', 'bytes \x00', 'bytes \x0000', 'json "\u0000"'], 'null', 'strip');
SELECT * FROM t ORDER BY id;
-- Taking it out of a member's name could make two members one.
SELECT put(:'cols', 't', ARRAY['int 6', 'null', 'null', 'json {"a": 1, "a\u0000": 2}'], 'null', 'strip');
SELECT put(:'cols', 't', ARRAY['int 6', 'null', 'null', 'json {"x": {"a\u0000" : 2}}'], 'null', 'replace');
-- The same as documents of a row image: "a\0b"; {"a": "x\0y"} and {"a\0": 5}.
\set nul_string '\\x0c03610062'
\set nul_value '\\x0001001000 0b000100 0c0c00 61 03780079'
\set nul_name '\\x0001000d00 0b000200 050500 6100'
SELECT put('id int; j json', 't', ARRAY['int 7', 'document ' || replace(d, ' ', '')], 'null', p) FROM unnest(ARRAY[:'nul_string', :'nul_value']) d, unnest('{strip,replace}'::text[]) p;
SELECT id, j FROM t WHERE id = 7 ORDER BY j::text COLLATE "C";
SELECT put('id int; j json', 't', ARRAY['int 8', 'document ' || :'nul_string'], 'null', 'halt');
SELECT put('id int; j json', 't', ARRAY['int 8', 'document ' || replace(:'nul_name', ' ', '')], 'null', 'strip');
SELECT put('id int; j json', 't', ARRAY['int 8', 'document ' || replace(:'nul_name', ' ', '')], 'null', 'replace');
-- A zero byte between the halves of a character: without it they are no character, either.
SELECT put('id int; j json', 't', ARRAY['int 8', 'document \x0c03c300a9'], 'null', 'strip');
SELECT put('id int; j json', 't', ARRAY['int 8', 'document \x0c03c300a9'], 'null', 'replace');
-- In a key
CREATE TABLE tk (k text COLLATE "C" PRIMARY KEY);
SELECT put('k varchar(20) key', 'tk', ARRAY['bytes \x6100'], 'null', 'strip');
SELECT put('k varchar(20) key', 'tk', ARRAY['bytes \x6100'], 'null', 'replace');
