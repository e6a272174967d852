-- Behaviour: which keys have one order on both sides, which can be paged through; comparison; a key stored as
-- the bound of a copied range comes back as it was.
-- Why: one wrong comparison in the gate is one change lost; one byte lost in a bound is a range copied wrong.

CREATE SCHEMA test_keys;
SET search_path = test_keys, public;
\set VERBOSITY terse

SELECT t, key_sort('k ' || t || ' key') FROM unnest('{tinyint,smallint unsigned,mediumint,int,bigint unsigned,"decimal(10,2)",date,datetime(6),timestamp,time(3),year,binary(16),varbinary(8),char(5),varchar(5),bit(9),float,double,"enum(''a'')","set(''a'')",text,blob,json}'::text[]) t;
SELECT key_sort('a int key; b varbinary(4) key'), key_sort('a int key; b varchar(4) key'), key_sort('a int key; b float key');
SELECT key_sort('a int'), key_sort('@prefix; a varbinary(100) key');

-- Comparison: each list is in ascending order, so every earlier one is less than every later one.
CREATE TABLE lists (spec text, vals text[]);
INSERT INTO lists VALUES
	('k bigint', '{int -9223372036854775808, int -2, int -1, int 0, int 1, int 9223372036854775807}'),
	('k bigint unsigned', '{uint 0, uint 1, uint 9223372036854775807, uint 9223372036854775808, uint 18446744073709551615}'),
	('k decimal(10,2)', '{decimal -12345678.90, decimal -100.00, decimal -99.99, decimal -9.99, decimal -0.01, decimal 0.00, decimal 0.01, decimal 0.10, decimal 9.99, decimal 10.00, decimal 12345678.90}'),
	('k decimal(5,0)', '{decimal -10, decimal -9, decimal 0, decimal 9, decimal 10}'),
	('k date', '{datetime 0000-00-00, datetime 0000-00-01, datetime 2015-00-21, datetime 2015-01-00, datetime 2015-01-31, datetime 2015-02-01, datetime 9999-12-31}'),
	('k datetime(6)', '{datetime 2015-01-01 00:00:00, datetime 2015-01-01 00:00:00.000001, datetime 2015-01-01 00:00:01, datetime 2015-01-01 00:01:00, datetime 2015-01-01 01:00:00}'),
	('k timestamp', '{timestamp 0, timestamp 1000000, timestamp 2147483647000000}'),
	('k time', '{time -3020399000000, time -1, time 0, time 1, time 3020399000000}'),
	('k year', '{int 0, int 1901, int 2155}'),
	('k varbinary(4)', ARRAY['bytes \x', 'bytes \x00', 'bytes \x0000', 'bytes \x01', 'bytes \x7f', 'bytes \x80', 'bytes \xff', 'bytes \xff00']),
	('k binary(2)', ARRAY['bytes \x0000', 'bytes \x0001', 'bytes \x0100', 'bytes \xff00']);
SELECT spec, count(*) AS pairs, count(*) FILTER (WHERE compare_key(spec, a, b) <> sign(i - j)) AS wrong
FROM lists, unnest(vals) WITH ORDINALITY x(a, i), unnest(vals) WITH ORDINALITY y(b, j) GROUP BY spec ORDER BY spec;
SELECT compare_key('k varchar(5)', 'text a', 'text b');
SELECT compare_key('k bigint', 'int 1', 'uint 1');

-- What was stored comes back; the bound itself is readable.
INSERT INTO lists VALUES
	('k char(5)', ARRAY['text ', 'text é', 'bytes \xff00', 'text -1']),
	('k varchar(5)', ARRAY['text ', 'text A ', 'bytes \x0a']),
	('k bit(17)', ARRAY['bits \x000000', 'bits \x010001']),
	('k tinyint unsigned', '{uint 255}'), ('k mediumint', '{int -8388608}');
SELECT spec, count(*), count(*) FILTER (WHERE NOT key_survives(spec, v)) AS lost FROM lists, unnest(vals) v GROUP BY spec ORDER BY spec;
SELECT spec, v, convert_from(encode_key(spec, v), 'UTF8') FROM
	(VALUES ('k bigint', 'int -5'), ('k decimal(65,30)', 'decimal -0.000000000000000000000000000001'), ('k date', 'datetime 2015-00-21'),
			('k datetime(6)', 'datetime 2024-02-29 23:59:58.000001'), ('k timestamp', 'timestamp 1704067200250000'), ('k varchar(5)', 'text é')) x(spec, v);
SELECT encode_key('k bit(17)', 'bits \x010001'), encode_key('k varbinary(5)', 'bytes \x0027');

-- What no range is bounded by, and what was damaged.
SELECT encode_key('k float', 'float 1');
SELECT encode_key('k enum(''a'')', 'label 1');
SELECT encode_key('k bigint', 'null');
SELECT encode_key('k bigint', 'uint 1');
SELECT decode_key('k bigint', '');
SELECT decode_key('k bigint', '-');
SELECT decode_key('k bigint', '9223372036854775808');
SELECT decode_key('k bigint', '-9223372036854775809');
SELECT decode_key('k bigint unsigned', '18446744073709551616');
SELECT decode_key('k bigint unsigned', '-1');
SELECT decode_key('k bigint', '1 ');
SELECT decode_key('k date', '2015-01-01');
SELECT decode_key('k date', '2015-01-01 00:00:00,000000');
SELECT decode_key('k float', '1');

-- The same value, byte for byte: for "did this UPDATE change the key".
SELECT same_value(a, b), a, b FROM (VALUES
	('int 1', 'int 1'), ('int 1', 'int 2'), ('int 1', 'uint 1'), ('null', 'null'), ('null', 'int 0'), ('absent', 'null'),
	('text a', 'text a'), ('text a', 'text A'), ('text a', 'text a '), ('text ', 'text '), ('float 0', 'float -0'), ('float 1', 'float 1'),
	('double -0', 'double -0'), ('datetime 2015-01-01 00:00:00.5', 'datetime 2015-01-01 00:00:00.5'), ('datetime 2015-01-01', 'datetime 2015-01-02'),
	('decimal 1.0', 'decimal 1.00'), ('time 1', 'timestamp 1'), ('label 1', 'label 2'), ('json {}', 'json {}')) x(a, b);
