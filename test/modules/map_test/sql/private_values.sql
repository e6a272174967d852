-- Behaviour: when a value cannot be converted, the error names table and column and has SQLSTATE CA011, and the
-- value stands nowhere in it: not in message, detail, hint, context.
-- Why: such errors end in the server's log and in incidents, where many people read who may not read the data.
-- How: each way to fail once, with a value that would be found again; the error is looked through for it.

CREATE SCHEMA test_private_values;
SET search_path = test_private_values, public;
CREATE DOMAIN no_secret AS text CHECK (VALUE !~ 'SECRET');
CREATE FUNCTION raise_it(v text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF v IS NOT NULL THEN RAISE 'found %', v; END IF; RETURN true; END $$;
CREATE DOMAIN noisy AS text CHECK (raise_it(VALUE));
CREATE TABLE t (i smallint, n numeric(10,2), d date, a text, v varchar(20), j jsonb, js json, dom no_secret, noisy noisy, nn text NOT NULL DEFAULT 'x');

CREATE FUNCTION failure(spec text, vals text[], secret text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; d text; h text; c text; s text; col text; tab text;
BEGIN
	PERFORM put(spec, 't', vals);
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT,
		c = PG_EXCEPTION_CONTEXT, s = RETURNED_SQLSTATE, col = COLUMN_NAME, tab = TABLE_NAME;
	-- plpgsql's own context quotes the call's text without its parameters
	RETURN format('%s %s.%s %s | %s%s', s, tab, col,
				  CASE WHEN position(secret IN concat_ws(' ', m, d, h, c)) > 0 THEN 'TELLS THE VALUE' ELSE 'private' END, d, h);
END $$;

SELECT failure('i smallint unsigned', '{uint 54321}', '54321');
SELECT failure('n decimal(10,2)', '{decimal 543210987.65}', '543210987');
SELECT failure('d date', '{datetime 2015-02-31}', '2015');
SELECT failure('a text', ARRAY['bytes \x534543524554ff'], 'SECRET');
SELECT failure('a text collate=ascii_bin', ARRAY['bytes \x534543524554e9'], 'SECRET');
SELECT failure('a text', ARRAY['bytes \x53454352455400'], 'SECRET');
SELECT failure('v varchar(20)', ARRAY['text SECRET' || repeat('x', 90)], 'SECRET');
SELECT failure('j json', ARRAY['json {"SECRET" 1}'], 'SECRET');
SELECT failure('j json', ARRAY['json {"SECRET": "\ud800"}'], 'SECRET');
SELECT failure('j json', ARRAY['json "SECRET\u0000"'], 'SECRET');
SELECT failure('j json', ARRAY['json {"a": 1e999999}'], '999999');
SELECT failure('j json', ARRAY['json ' || repeat('[', 100000)], '[[[');
SELECT failure('js json', ARRAY['json {"SECRET" 1}'], 'SECRET');
SELECT failure('dom text', ARRAY['text SECRET'], 'SECRET');
SELECT failure('noisy text', ARRAY['text SECRET'], 'SECRET');
SELECT failure('nn text', ARRAY['null'], 'SECRET');

-- Not about the value: passes as what it is, so that the worker can tell a retry from a halt.
CREATE FUNCTION cancel_it(v text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN IF v IS NOT NULL THEN RAISE 'stop' USING ERRCODE = '57014'; END IF; RETURN true; END $$;
CREATE DOMAIN cancelled AS text CHECK (cancel_it(VALUE));
ALTER TABLE t ADD cancelled cancelled;
SELECT failure('cancelled text', ARRAY['text SECRET'], 'SECRET');
