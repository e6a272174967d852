\echo Use "CREATE EXTENSION wire_test" to load this file. \quit

CREATE FUNCTION wire_info(options text) RETURNS text
	AS 'MODULE_PATHNAME' LANGUAGE c STRICT VOLATILE;
CREATE FUNCTION wire_query(options text, sql text) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE c STRICT VOLATILE;
CREATE FUNCTION wire_tables(options text, patterns text[]) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE c STRICT VOLATILE;
CREATE FUNCTION wire_rows(options text, schema_name text, table_name text, tail text DEFAULT '', quiet boolean DEFAULT false)
	RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE c STRICT VOLATILE;
CREATE FUNCTION wire_stream(options text, gtids text, uuid text, heartbeat_ms integer, stop integer, verbose boolean DEFAULT true)
	RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE c STRICT VOLATILE;
CREATE FUNCTION wire_literals(options text, schema_name text, table_name text) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE c STRICT VOLATILE;
CREATE FUNCTION wire_signatures(options text, gtids text) RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE c STRICT VOLATILE;
CREATE FUNCTION wire_preflight(options text, patterns text[], with_copy boolean DEFAULT true)
	RETURNS SETOF text
	AS 'MODULE_PATHNAME' LANGUAGE c STRICT VOLATILE;
