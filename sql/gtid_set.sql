--
-- The type gtid_set: canonical form, algebra, comparison, and what bad input gets.
--
-- Positions, waits and lag rest on it.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS capstan;
RESET client_min_messages;
SET search_path = capstan, public;
\set a '''3e11fa47-71ca-11e1-9e33-c80aa9429562'''
\set b '''4d22fb58-82db-22f2-af44-d91bba530673'''

-- canonical form: lower case, uuids in order, intervals sorted and joined, untagged ones first
SELECT '3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:7:1-3:4:9-9'::gtid_set;
SELECT '4d22fb58-82db-22f2-af44-d91bba530673:1, 3e11fa47-71ca-11e1-9e33-c80aa9429562:2'::gtid_set;
SELECT E' 3e11fa47-71ca-11e1-9e33-c80aa9429562 : 1 - 3 ,\n4d22fb58-82db-22f2-af44-d91bba530673 : 5'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3,3e11fa47-71ca-11e1-9e33-c80aa9429562:3-8'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:Import:4-6:1-2:audit:7'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-2:import:1:2:3'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:9223372036854775806'::gtid_set;
SELECT ''::gtid_set AS empty, ' '::gtid_set AS blank, ','::gtid_set AS comma;

-- a uuid without numbers, and an interval that ends before it begins, are mistakes
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:5-1'::gtid_set;

-- bad input
SELECT 'nonsense'::gtid_set;
\echo SQLSTATE :SQLSTATE
SELECT '3e11fa47-71ca-11e1-9e33-c80aa942956:1'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa942956g:1'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:0'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:-1'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:1-2-3'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:9223372036854775807'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:99999999999999999999'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:1 2'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:1;2'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:tag'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:1tag:1'::gtid_set;
SELECT '3e11fa47-71ca-11e1-9e33-c80aa9429562:a-tag:1'::gtid_set;
SELECT ('3e11fa47-71ca-11e1-9e33-c80aa9429562:' || repeat('t', 32) || ':1')::gtid_set;
SELECT ('3e11fa47-71ca-11e1-9e33-c80aa9429562:' || repeat('t', 33) || ':1')::gtid_set;
SELECT NULL::gtid_set IS NULL AS null_stays_null;

-- union
SELECT (:a || ':1-5')::gtid_set + (:a || ':4-9')::gtid_set;
SELECT (:a || ':1-5')::gtid_set + (:a || ':6')::gtid_set;
SELECT (:a || ':1-5')::gtid_set + (:b || ':1')::gtid_set;
SELECT (:a || ':1-5')::gtid_set + (:a || ':x:1-5')::gtid_set;
SELECT gtid_union('', (:a || ':1')::gtid_set);
-- difference
SELECT (:a || ':1-9')::gtid_set - (:a || ':4-5')::gtid_set;
SELECT (:a || ':1-9')::gtid_set - (:a || ':1-9')::gtid_set AS nothing;
SELECT (:a || ':1-9,' || :b || ':1-3')::gtid_set - (:a || ':1-100')::gtid_set;
SELECT (:a || ':1-9:x:1-9')::gtid_set - (:a || ':2-8:x:9')::gtid_set;
SELECT gtid_subtract((:a || ':1-9')::gtid_set, (:b || ':1-9')::gtid_set);
-- intersection
SELECT (:a || ':1-5:8-12')::gtid_set * (:a || ':4-9')::gtid_set;
SELECT (:a || ':1-5')::gtid_set * (:b || ':1-5')::gtid_set AS nothing;
SELECT gtid_intersect((:a || ':1-5:x:1-5')::gtid_set, (:a || ':x:3-9')::gtid_set);
-- containment: an untagged GTID is another one than a tagged one of the same number
SELECT (:a || ':1-9')::gtid_set @> (:a || ':2:4-5')::gtid_set AS yes,
       (:a || ':1-9')::gtid_set @> (:a || ':9-10')::gtid_set AS no,
       (:a || ':1-9')::gtid_set @> ''::gtid_set AS yes,
       ''::gtid_set @> ''::gtid_set AS yes,
       ''::gtid_set @> (:a || ':1')::gtid_set AS no,
       (:a || ':1-9')::gtid_set @> (:a || ':x:1')::gtid_set AS no,
       (:a || ':x:1-3')::gtid_set @> (:a || ':X:2')::gtid_set AS yes,
       (:a || ':5')::gtid_set <@ (:a || ':1-9')::gtid_set AS yes,
       gtid_contains((:a || ':1-9')::gtid_set, (:b || ':1')::gtid_set) AS no;
SELECT (:a || ':1-9')::gtid_set && (:a || ':9-10')::gtid_set AS yes,
       (:a || ':1-9')::gtid_set && (:a || ':10')::gtid_set AS no,
       ''::gtid_set && ''::gtid_set AS no;
-- count
SELECT gtid_count(''), gtid_count((:a || ':7')::gtid_set), gtid_count((:a || ':1-5:10-14:x:1,' || :b || ':1-2')::gtid_set);
SELECT gtid_count((:a || ':1-9223372036854775806')::gtid_set);
SELECT gtid_count((:a || ':1-9223372036854775806,' || :b || ':1-9223372036854775806')::gtid_set);
\echo SQLSTATE :SQLSTATE
SELECT gtid_is_empty(''), gtid_is_empty((:a || ':1')::gtid_set);

-- equality is that of sets, whatever the spelling
SELECT (:a || ':1-3:4')::gtid_set = (upper(:a) || ':1-4')::gtid_set AS yes,
       (:a || ':1-3')::gtid_set <> (:a || ':1-4')::gtid_set AS yes,
       (:a || ':1')::gtid_set = (:a || ':x:1')::gtid_set AS no;
CREATE TEMP TABLE sets (s gtid_set);
INSERT INTO sets VALUES ('3e11fa47-71ca-11e1-9e33-c80aa9429562:1-3'), ('3E11FA47-71CA-11E1-9E33-C80AA9429562:1:2:3'), ('');
SELECT s, count(*) FROM sets GROUP BY s ORDER BY s::text;
SELECT * FROM (SELECT DISTINCT s FROM sets) AS d ORDER BY s::text;
SELECT count(*) FROM sets x JOIN sets y USING (s);
-- there is no order
SELECT s FROM sets ORDER BY s;
\echo SQLSTATE :SQLSTATE

-- casts, binary form, dump and restore
SELECT (:a || ':1-5')::text::gtid_set::text;
INSERT INTO sets SELECT :a || ':8'::text;
SELECT gtid_set_send((:a || ':1')::gtid_set) = convert_to(:a || ':1', 'UTF8') AS binary_is_text;
CREATE TEMP TABLE sets_again (s gtid_set);
COPY (SELECT s FROM sets WHERE s <> '') TO PROGRAM 'cat >gtid_set.data' (FORMAT binary);
COPY sets_again FROM PROGRAM 'cat gtid_set.data; rm gtid_set.data' (FORMAT binary);
SELECT * FROM sets_again ORDER BY s::text;

-- lag by arithmetic
SELECT gtid_count((:a || ':1-1000')::gtid_set - (:a || ':1-990')::gtid_set) AS transactions_behind;

-- a set with many gaps, against plain integers
CREATE FUNCTION pg_temp.set_of(numbers int[]) RETURNS gtid_set LANGUAGE sql AS
$$ SELECT coalesce('3e11fa47-71ca-11e1-9e33-c80aa9429562:' || string_agg(n::text, ':' ORDER BY random()), '')::capstan.gtid_set FROM unnest(numbers) n $$;
SELECT setseed(0.5) IS NOT NULL AS seeded;
WITH pairs AS MATERIALIZED (
    SELECT i, array(SELECT g FROM generate_series(1, 60) g WHERE random() < 0.5 AND i > 0) AS x,
              array(SELECT g FROM generate_series(1, 60) g WHERE random() < 0.5 AND i > 0) AS y
    FROM generate_series(1, 200) i)
SELECT count(*) AS pairs,
       bool_and(pg_temp.set_of(x) + pg_temp.set_of(y) = pg_temp.set_of(array(SELECT unnest(x) UNION SELECT unnest(y)))) AS union_ok,
       bool_and(pg_temp.set_of(x) - pg_temp.set_of(y) = pg_temp.set_of(array(SELECT unnest(x) EXCEPT SELECT unnest(y)))) AS difference_ok,
       bool_and(pg_temp.set_of(x) * pg_temp.set_of(y) = pg_temp.set_of(array(SELECT unnest(x) INTERSECT SELECT unnest(y)))) AS intersection_ok,
       bool_and((pg_temp.set_of(x) @> pg_temp.set_of(y)) = (x @> y)) AND bool_and(pg_temp.set_of(x || y) @> pg_temp.set_of(y)) AS contains_ok,
       bool_and((pg_temp.set_of(x) && pg_temp.set_of(y)) = (x && y)) AS overlaps_ok,
       bool_and(gtid_count(pg_temp.set_of(x)) = cardinality(x)) AS count_ok
FROM pairs;
