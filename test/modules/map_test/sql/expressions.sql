-- Behaviour: an expression of MySQL becomes SQL of the same meaning, or is refused with the reason.
-- Why: a CHECK that is stricter here halts the stream, one that is weaker lets in what the source would not have.
-- How: clauses as information_schema writes them, well-formed and hostile; each that is translated is put on a table.
-- Not here: that the source says the same of each row; t/080_objects.pl asks it.

CREATE SCHEMA test_expressions;
SET search_path = test_expressions, public;
\set VERBOSITY terse
\pset tuples_only on
\pset format unaligned

CREATE TABLE spec (t text);
INSERT INTO spec VALUES ('id int key; a int; k int; u int unsigned; b bigint; bu bigint unsigned; d decimal(10,2); f float; x double; fm float(10,2); '
	'z varchar(20) collate=utf8mb4_bin; n varchar(20) collate=utf8mb4_0900_bin; ci varchar(20); l varchar(20) collate=latin1_bin; '
	'sj varchar(20) collate=sjis_bin; c char(5) collate=utf8mb4_0900_bin; e enum(''a'',''b'') collate=utf8mb4_bin; vb varbinary(10); '
	'da date; dt datetime; d3 datetime(3); ts timestamp; y year; bi bit(3); j json; `we''ird "n% ame` int');
CREATE TABLE target (id int, a int, k int, u bigint, b bigint, bu numeric(20,0), d numeric(10,2), f real, x float8, fm real, z varchar(20), n varchar(20), ci varchar(20),
	l varchar(20), sj varchar(20), c varchar(5), e text, vb bytea, da date, dt timestamp(0), d3 timestamp(3), ts timestamptz(0), y smallint, bi bit(3), j jsonb,
	"we'ird ""n% ame" int);

-- Shows the translation, and that Postgres takes it.
CREATE FUNCTION show(clause text, zero_dates text DEFAULT 'null', nul_bytes text DEFAULT 'halt') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	translated text := public.check_sql((SELECT t FROM spec), clause, zero_dates, nul_bytes);
BEGIN
	IF translated NOT LIKE 'not: %' THEN
		EXECUTE 'ALTER TABLE target ADD CONSTRAINT c CHECK (' || translated || ')';
		ALTER TABLE target DROP CONSTRAINT c;
	END IF;
	RETURN clause || E'\n    ' || translated;
END $$;

-- Integers, by value; arithmetic that cannot leave 64 bits.
SELECT show(c) FROM unnest(ARRAY[
	'(`a` > 0)', '(`a` <> 1)', '(`u` > -(1))', '(`bu` <= 18446744073709551615)', '((`a` >= 0) and (`a` <= 10))', '((`a` = 1) or (`k` is null))',
	'((`a` > 1) xor (`k` > 1))', '(not((`a` = 1)))', '(`a` between 1 and 10)', '(`a` not between 1 and `k`)', '(`a` in (1,2,NULL))', '(`a` not in (-(1),2))',
	'(`a` <=> 5)', '(`a` <=> NULL)', '((`a` > 0) is true)', '((`a` > 0) is not false)', '(`a` is not null)', 'true', '((`a` + (`k` * 2)) < 5)', '((`a` - `k`) > 0)',
	'((`u` + 1) > 1)', '((`a` % 2) = 0)', '((`a` DIV 2) = 1)', '(-(`a`) < 5)', '(coalesce(`k`,0) > 0)', '(ifnull(`k`,`a`) > 0)', '(`a` and `k`)', '(`a` > 0) and `k` > 0 or `a` = 3',
	'(`we''ird "n% ame` > 0)', '(`we\''ird "n% ame` > 0)']) c;
-- ... and that can.
SELECT show(c) FROM unnest(ARRAY[
	'((`b` + 1) > 0)', '((`u` - 1) > 0)', '((`u` - `a`) > 0)', '((`bu` + 1) > 0)', '((`b` * 2) > 0)', '(-(`bu`) < 5)', '(-(`b`) < 5)', '((`a` / 2) > 1)', '((`a` % `k`) = 0)',
	'((`a` DIV 0) = 1)', '((2147483647 + 1) > `a`)', '((9223372036854775807 + 1) > `a`)', '((`a` % -(2)) = 1)', '(coalesce(`b`,`bu`) > 0)', '((`a` * `b`) = 1)', '(`a` = 99999999999999999999999999)']) c;
-- Decimals and floating-point numbers.
SELECT show(c) FROM unnest(ARRAY['(`d` >= 0.5)', '(`d` > `a`)', '(`x` >= 1e3)', '(`f` = 0.1)', '(`f` > `d`)', '(`x` between 0 and 1.5)', '(`x` in (1,2.5,1e3))',
	'(`a` in (1,1e3))', '((`d` + 1) > 0)', '((`x` * 2) > 0)', '(`d` <> -(0.5))',
	'(`fm` = 0.1)', '(`f` < `fm`)', '(`fm` in (1,2))', '(`fm` is null)']) c;
-- Texts: only by collations that Postgres has, too.
SELECT show(c) FROM unnest(ARRAY[
	'(`z` = _utf8mb4\''it\\\''s \\\\ x  \'')', '(`n` = _utf8mb4\''a \'')', '(`n` < _utf8mb4\''b\'')', '(`z` in (_utf8mb4\''a\'',_utf8mb4\''b\\n\''))', '(`l` <> _latin1\''x\'')',
	'(`e` = _utf8mb4\''a\'')', '(`z` <=> NULL)', '((length(`z`) > 1) and (char_length(`ci`) < 9))', '(length(`vb`) = 3)', '(length(`l`) = 3)', '(`vb` = 0x6162)', '(`vb` > _utf8mb4\''ab\'')']) c;
SELECT show(c) FROM unnest(ARRAY[
	'(`z` < _utf8mb4\''b\'')', '(`ci` = _utf8mb4\''a\'')', '(`sj` = _sjis\''a\'')', '(`c` = _utf8mb4\''a\'')', '(`e` > _utf8mb4\''a\'')', '(`z` = `n`)', '(`z` = 5)', '(`a` = _utf8mb4\''5\'')',
	'((`z` collate utf8mb4_general_ci) = _utf8mb4\''x\'')', '(`z` like _utf8mb4\''a%\'')', '(`z` = _utf8mb4\''Ã©\'')', '(`z` = _utf8mb4\''?\'')', '(`z` = _binary\''a\'')', '(length(`sj`) = 3)',
	'regexp_like(`z`,_utf8mb4\''x\'')', '(`z`)', '(`z` and 1)', '(_utf8mb4\''a\'' = _utf8mb4\''A\'')', '(`z` = _utf16\''ab\'')', '(`vb` = _swe7\''ab\'')']) c;
SELECT show('(`z` = _utf8mb4\''a\'')', nul_bytes => 'strip');
-- Dates.
SELECT show(c) FROM unnest(ARRAY[
	'(`da` > DATE\''2020-01-01\'')', '(`da` > _utf8mb4\''2020-02-29\'')', '(`dt` > _utf8mb4\''2020-01-01\'')', '(`dt` > `da`)', '(`dt` > TIMESTAMP\''2020-01-01 01:02:03.5\'')',
	'(`da` between _utf8mb4\''2000-01-01\'' and _utf8mb4\''2099-12-31\'')', '(`d3` in (_utf8mb4\''2000-01-01 00:00:00.000\''))', '((`dt` is null) or (`dt` > `da`))']) c;
SELECT show(c) FROM unnest(ARRAY[
	'(`da` > _utf8mb4\''2020-02-30\'')', '(`da` > _utf8mb4\''2021-02-29\'')', '(`da` > _utf8mb4\''2020-1-1\'')', '(`da` > _utf8mb4\''0000-00-00\'')', '(`da` > 20200101)', '(`da` = _utf8mb4\''20200101\'')',
	'(`dt` between _utf8mb4\''2000-01-01\'' and _utf8mb4\''2099-12-31\'')', '(`d3` in (_utf8mb4\''2000-01-01 00:00:00\'',NULL))', '(`dt` is not null)', '(not((`dt` is null)))', '((`dt` > `da`) is true)',
	'(`ts` > _utf8mb4\''2020-01-01\'')', '(`ts` >= `ts`)', '(`da` > (curdate() - interval 1 year))', '(`y` > 2000)', '(`bi` = 1)', '(`j` = 1)', '(`da` > DATE\''2020-01-01; DROP\'')', '((`da` is null) or (DATE\''2021-01-01\'' > _utf8mb4\''2020-01-01\''))']) c;
SELECT show('(`dt` is not null)', zero_dates => 'halt');
SELECT show(c, zero_dates => 'infinity') FROM unnest(ARRAY['(`dt` is not null)', '(`dt` > `da`)', '(`da` = _utf8mb4\''2020-02-29\'')']) c;
-- Not what is expected: refused, never half understood.
SELECT show(c) FROM unnest(ARRAY['', '(', ')', '()', '(`a` > 0', '`a` > 0)', '(`a` > )', '(`a` 1)', '(`a` > 0) garbage', '(`a` > 0), (1)', '(`nope` > 0)', '(`a` ^ 1)', '(`a` >> 1)', '(`a` | 1)', '(`a` & 1)',
	'(~`a` = 1)', '(log(`a`) > 0)', '(`a` > 0) -- x', '(`a` > 0); DROP TABLE t', '(`a` > ''1'')', '(`z` = _utf8mb4\''x)', '(`z` = _utf8mb4\''x\\\'')', '(`z` = _utf8mb4\''x\\0y\'')', '(`z` = _utf8mb4\''a\''\''b\'')',
	'(`a', '(`o`.`t`.`a` > 0)', '(`a` > 0x)', '(`a` > 0xABC)', '(`a` > 1e)', '(`a` > 1abc)', '(`a` > .5)', '(`a` in ())', '(`a` in (`k`))', '(`a` between 1)', '(`a` is)', '(`a` is 5)', '(not)', '(coalesce() > 0)',
	'(case when (`a` > 1) then (`k` > 1) else 0 end)', '(`a` > (select 1))', '(json_valid(`j`))', '(`a` <=> 1 <=> 1)', '(`a` = true)', '((`a` = 1) = (`k` = 1))', '(NULL = NULL)', '(NULL is null)', '(`bi` is not null)',
	'(`a` > 0) \x', '(`a` > `a`', '(`id` \\ 1)', E'(`a` > 0)\n', '(`vb` = 5)', '(cast(`a` as signed) > 1)', '@@version > 1', '(`a` := 1)', 'a > 0', '(char_length(`a`) > 0)', '(ifnull(`a`) > 0)', '(length(`z`,`z`) > 0)',
	'(-(`z`) > 0)', '(`a` member of (`j`))', '(`a` || `k`)', '(`a` && `k`)', '(!`a`)']) c;
SELECT regexp_replace(public.check_sql((SELECT t FROM spec), repeat('(', 100000) || '`a` > 0'), '\d+', 'n');
SELECT public.check_sql((SELECT t FROM spec), repeat('(', 60000) || '`a` > 0' || repeat(')', 5000));
SELECT public.check_sql((SELECT t FROM spec), '(`a` in (1' || repeat(',1', 2000) || '))');

-- Defaults.
SELECT t || ' DEFAULT ' || d || E'\n    ' || public.default_sql('c ' || t, d, false) FROM (VALUES ('int', '-5'), ('int', '5; DROP TABLE t'), ('bigint unsigned', '18446744073709551615'), ('decimal(10,2)', '1.50'),
	('float', '0'), ('float', '0.1'), ('double', '1e-10'), ('double', 'nan'), ('varchar(20)', 'it''s \ x'), ('varchar(20)', 'a?'), ('char(5)', 'a  '), ('enum(''a'',''b'')', 'b'), ('set(''x'',''y'')', 'x,y'),
	('binary(4)', '0x6162'), ('varbinary(4)', '0x6162'), ('varbinary(4)', 'ab'), ('varbinary(4)', '0x6'), ('bit(4)', 'b''101'''), ('bit(2)', 'b''101'''), ('bit(4)', 'b''1''; x'''), ('year', '2020'), ('time', '-10:11:12'),
	('date', '2020-01-31'), ('date', '0000-00-00'), ('date', '2020-01-31''; x'), ('datetime(3)', '2020-01-31 01:02:03.123'), ('timestamp', '2020-01-31 01:02:03')) v(t, d);
SELECT t || ' DEFAULT (' || d || E')\n    ' || public.default_sql('c ' || t, d, true) FROM (VALUES ('timestamp', 'CURRENT_TIMESTAMP'), ('timestamp(3)', 'CURRENT_TIMESTAMP(3)'), ('timestamp(6)', 'CURRENT_TIMESTAMP(6)'),
	('timestamp(2)', 'CURRENT_TIMESTAMP(2)'), ('datetime', 'CURRENT_TIMESTAMP'), ('datetime', 'now(3)'), ('datetime(3)', 'now(3)'), ('date', 'curdate()'), ('varchar(36)', 'uuid()'), ('int', '(1 + 2)'), ('int', '-(3)'), ('int', '(5 / 2)'),
	('text', '_utf8mb4\''lit\'''), ('varchar(5)', '(1 + 2)'), ('int', '_utf8mb4\''5\'''), ('int', '`other`'), ('json', 'json_array()'), ('double', '0.5'), ('int', 'rand()')) v(t, d);
DROP SCHEMA test_expressions CASCADE;
