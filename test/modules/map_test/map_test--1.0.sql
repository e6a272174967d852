\echo Use "CREATE EXTENSION map_test" to load this file. \quit

-- spec: see source_spec.c

CREATE FUNCTION default_types(spec text) RETURNS SETOF text LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_default_types';
CREATE FUNCTION ddl(spec text, target_schema text, target_table text) RETURNS text LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_ddl';
CREATE FUNCTION complaints(spec text, target regclass) RETURNS SETOF text LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_complaints';
CREATE FUNCTION source_complaints(spec text) RETURNS SETOF text LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_source_complaints';

-- Builds the map, converts the row, inserts it as the worker does (SPI, typed parameters); tells the counters.
CREATE FUNCTION put(spec text, target regclass, row_values text[], zero_dates text DEFAULT 'null', nul_bytes text DEFAULT 'halt') RETURNS text
LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_put';

-- Microseconds for `rows` conversions.
CREATE FUNCTION convert_time(spec text, target regclass, row_values text[], rows int) RETURNS float8 LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_convert_time';

CREATE FUNCTION key_index(spec text, target regclass) RETURNS regclass LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_key_index';
CREATE FUNCTION key_sort(spec text) RETURNS text LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_key_sort';
CREATE FUNCTION compare_key(spec text, a text, b text) RETURNS int LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_compare_key';
CREATE FUNCTION same_value(a text, b text) RETURNS bool LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_same_value';
CREATE FUNCTION encode_key(spec text, value text) RETURNS bytea LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_encode_key';
-- Is the decoded value the one that was encoded?
CREATE FUNCTION key_survives(spec text, value text) RETURNS bool LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_key_survives';
CREATE FUNCTION decode_key(spec text, encoded bytea) RETURNS bool LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_decode_key';

-- Codes of `width` bytes, converted one by one; '?' where there is no result.
CREATE FUNCTION charset_codes(charset text, codes bytea, width int) RETURNS bytea LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_charset_codes';
-- NULL where there is no result.
CREATE FUNCTION charset_text(charset text, bytes bytea) RETURNS bytea LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_charset_text';
CREATE FUNCTION charset_second(charset text, bytes bytea) RETURNS bool LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_charset_second';
CREATE FUNCTION charset_time(charset text, bytes bytea, times int) RETURNS float8 LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_charset_time';

-- Of `count` values of a DECIMAL the first that is not, byte by byte, what numeric_in makes of its text; NULL if there is none.
CREATE FUNCTION decimals(spec text, target regclass, count int) RETURNS text LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_decimals';

-- The SQL of a CHECK clause as information_schema writes it; "not: " and why, if there is none.
CREATE FUNCTION check_sql(spec text, clause text, zero_dates text DEFAULT 'null', nul_bytes text DEFAULT 'halt') RETURNS text
LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_check_sql';
-- The same of a DEFAULT of the table's first column.
CREATE FUNCTION default_sql(spec text, source_default text, is_expression bool DEFAULT false) RETURNS text LANGUAGE C STRICT AS 'MODULE_PATHNAME', 'map_test_default_sql';
