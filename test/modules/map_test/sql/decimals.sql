-- Behaviour: a DECIMAL becomes the very numeric, byte by byte, that numeric_in makes of its text.
-- Why: numbers of up to 18 digits are made directly, without numeric_in.
-- How: every precision and scale, into a column of the same type, a wider one and one without a modifier; nines, powers of ten, zeros at
-- either end and in the middle, random digits, both signs.

SET client_min_messages = warning;
CREATE SCHEMA test_decimals;
SET search_path = test_decimals, public;

CREATE TABLE wrong (type text, target text, value text);
CREATE TABLE plain (a numeric);
DO $$
DECLARE
	kind text;
	value text;
	tried int := 0;
BEGIN
	FOR p IN 1 .. 20 LOOP
		FOR s IN 0 .. least(p, 30) LOOP
			FOREACH kind IN ARRAY ARRAY[format('numeric(%s,%s)', p, s), format('numeric(%s,%s)', p + 3, s + 2), 'numeric'] LOOP
				EXECUTE format('DROP TABLE IF EXISTS t; CREATE TABLE t (a %s)', kind);
				value := decimals(format('a decimal(%s,%s)', p, s), 't', 500);
				IF value IS NOT NULL THEN
					INSERT INTO wrong VALUES (format('decimal(%s,%s)', p, s), kind, value);
				END IF;
				tried := tried + 500;
			END LOOP;
		END LOOP;
	END LOOP;
	INSERT INTO wrong SELECT format('decimal(%s,%s)', p, s), 'numeric', decimals(format('a decimal(%s,%s)', p, s), 'plain', 2000)
		FROM (VALUES (65, 30), (65, 0), (30, 30), (19, 19), (18, 18), (18, 0), (38, 10)) v (p, s) WHERE decimals(format('a decimal(%s,%s)', p, s), 'plain', 2000) IS NOT NULL;
	RAISE WARNING '% values', tried;
END
$$;
TABLE wrong;
DROP SCHEMA test_decimals CASCADE;
