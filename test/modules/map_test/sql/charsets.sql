-- Behaviour: text of every character set becomes utf-8; what has no character is an error; a key is never made of
-- the second code of a character.
-- Why: the tables are worked out from strings in the source; a cell that moved would be a wrong character.
-- How: sums over all codes of each set, as they were when t/070_charset_codes.pl had compared them with MySQL;
-- single values at the edges.
-- Not here: that the characters are those of MySQL.

CREATE SCHEMA test_charsets;
SET search_path = test_charsets, public;
\set VERBOSITY terse
\pset null 'NULL'

CREATE FUNCTION pairs(first int, last int) RETURNS bytea LANGUAGE sql AS $$
	SELECT string_agg(decode(lpad(to_hex(a), 2, '0') || lpad(to_hex(b), 2, '0'), 'hex'), '' ORDER BY a, b) FROM generate_series(first, last) a, generate_series(0, 255) b
$$;
CREATE FUNCTION bytes() RETURNS bytea LANGUAGE sql AS $$
	SELECT string_agg(decode(lpad(to_hex(a), 2, '0'), 'hex'), '' ORDER BY a) FROM generate_series(0, 255) a
$$;
CREATE FUNCTION converted(charset text, bytes bytea) RETURNS text LANGUAGE sql AS $$ SELECT convert_from(charset_text(charset, bytes), 'UTF8') $$;

-- All bytes, then all pairs of bytes, and how many of them have a character.
CREATE FUNCTION sums(charset text, codes bytea, width int, OUT characters int, OUT md5 text) LANGUAGE sql AS $$
	SELECT length(codes) / width - (length(c) - length(replace(c, '3f', ''))) / 2, md5(c) FROM regexp_replace(encode(charset_codes(charset, codes, width), 'hex'), '(..)', '\1 ', 'g') c
$$;
SELECT charset, s.* FROM unnest('{armscii8,ascii,cp1250,cp1251,cp1256,cp1257,cp850,cp852,cp866,dec8,geostd8,greek,hebrew,hp8,keybcs2,koi8r,koi8u,latin1,latin2,latin5,
	latin7,macce,macroman,swe7,tis620,sjis,cp932,ujis,eucjpms,euckr,big5,gb2312,gbk,gb18030}'::text[]) charset, sums(charset, bytes(), 1) s;
SELECT charset, s.* FROM unnest('{sjis,cp932,ujis,eucjpms,euckr,big5,gb2312,gbk,gb18030,ucs2,utf16,utf16le}'::text[]) charset, sums(charset, pairs(128, 255), 2) s;
SELECT charset, s.* FROM unnest('{ujis,eucjpms}'::text[]) charset,
	sums(charset, (SELECT string_agg(decode('8f' || to_hex(a) || to_hex(b), 'hex'), '' ORDER BY a, b) FROM generate_series(161, 254) a, generate_series(161, 254) b), 3) s;
SELECT s.* FROM sums('gb18030', (SELECT string_agg(decode(to_hex(a) || to_hex(b) || to_hex(c) || to_hex(d), 'hex'), '' ORDER BY a, b, c, d)
	FROM generate_series(129, 133) a, generate_series(48, 57) b, generate_series(129, 254) c, generate_series(48, 57) d), 4) s;

-- Words.
SELECT converted('gbk', '\xd6d0cec441'), converted('big5', '\xb9cfa7ce'), converted('sjis', '\x93fa967b'), converted('ujis', '\xc6fccbdc'),
	   converted('euckr', '\xc7d1b1db'), converted('koi8r', '\xf0d2c9d7c5d4'), converted('gb18030', '\x8139ee399439fc36') AS gb18030;
SELECT converted('utf16', '\x00e920acd83dde00'), converted('utf16le', '\xe900ac203dd800de'), converted('ucs2', '\x00e920ac'), converted('utf32', '\x000000e9000020ac0001f600');
-- The exchange of two codes in GB 18030-2005; the last character.
SELECT to_hex(ascii(converted('gb18030', '\xa8bc'))), to_hex(ascii(converted('gb18030', '\x8135f437'))), to_hex(ascii(converted('gb18030', '\xe3329a35'))), charset_text('gb18030', '\xe3329a36');

-- Cut off, not well-formed, or without a character: no result.
SELECT charset, bytes, charset_text(charset, bytes::bytea) FROM (VALUES
	('gbk', '\x41d6'), ('gbk', '\xd641'), ('gbk', '\x80'), ('gbk', '\xff'), ('gbk', '\xa2e3'), ('gb18030', '\x81308130ff'), ('gb18030', '\x813081'), ('gb18030', '\x8431a530'),
	('ujis', '\x8e'), ('ujis', '\x8fa2'), ('ujis', '\x8fa2a1'), ('eucjpms', '\x80'), ('eucjpms', '\xa3'), ('sjis', '\x81'), ('sjis', '\x80'), ('sjis', '\xfa40'),
	('big5', '\xa15a'), ('tis620', '\xa0'), ('swe7', '\x7f'), ('swe7', '\xe9'), ('utf16', '\xd83d'), ('utf16', '\xde00d83d'), ('utf16', '\xd83d0041'),
	('utf16', '\x004100'), ('utf16le', '\x3dd8'), ('ucs2', '\xd83dde00'), ('ucs2', '\x41'), ('utf32', '\x00110000'), ('utf32', '\x0000d800'), ('utf32', '\x000041'),
	('utf8mb3', '\xf09f9880'), ('utf8mb4', '\xeda080'), ('utf8mb4', '\xc080'), ('ascii', '\xe9')) v (charset, bytes);
SELECT charset_text('cp1252', '\x41');

-- The same whether the result was measured first or not; around the eight bytes of the fast way.
SELECT charset, count(*), bool_and(converted(charset, (SELECT string_agg(b, '') FROM (SELECT repeated AS b FROM generate_series(1, n)) r)) = repeat(once, n)) FROM
	(VALUES ('latin1', '\xe941'::bytea, 'éA'), ('gbk', '\x41d6d0', 'A中'), ('gbk', '\x4142434445464748d6d0', 'ABCDEFGH中'), ('utf16', '\xd83dde000041', '😀A'), ('sjis', '\xb1', 'ｱ'),
			('gb18030', '\x9439fc3641', '😀A'), ('utf8mb4', '\xf09f9880', '😀')) v (charset, repeated, once), unnest('{0,1,2,3,7,8,9,2730,4096,8191,8192,8193,30000}'::int[]) n
	GROUP BY charset, repeated ORDER BY charset, repeated;

-- Second codes: those of which MySQL would have taken another.
SELECT charset, count(*) FROM unnest('{sjis,cp932,ujis,eucjpms,euckr,big5,gb2312,gbk,gb18030}'::text[]) charset, generate_series(0, 65535) n
	WHERE charset_second(charset, CASE WHEN n < 128 THEN decode(lpad(to_hex(n), 2, '0'), 'hex') ELSE decode(lpad(to_hex(n), 4, '0'), 'hex') END) GROUP BY 1 ORDER BY 1;
SELECT charset_second('cp932', '\x81be'), charset_second('cp932', '\x879c'), charset_second('cp932', '\xfa40'), charset_second('cp932', '\xeeef'), charset_second('cp932', '\x4141eeef'),
	   charset_second('ujis', '\x8fa2b7'), charset_second('armscii8', '\x28'), charset_second('armscii8', '\xa5');
CREATE TABLE k (a text PRIMARY KEY, b text);
SELECT put('a varchar(9) collate=cp932_bin key; b varchar(9) collate=cp932_bin', 'k', ARRAY['bytes \x81be', 'bytes \x879c']);
SELECT put('a varchar(9) collate=cp932_bin key; b varchar(9) collate=cp932_bin', 'k', ARRAY['bytes \x879c', 'bytes \x879c']);
SELECT put('a enum(x''81be'',x''879c'') collate=cp932_bin key; b enum(x''81be'',x''879c'') collate=cp932_bin', 'k', '{label 1, label 1}');
SELECT source_complaints('a enum(x''81be'',x''879c'') collate=cp932_bin key; b enum(x''81be'',x''879c'') collate=cp932_bin');
TABLE k;

-- U+0000 in each kind, and the policy.
CREATE TABLE nul (a text, b text, c text, d text);
SELECT put(spec, 'nul', vals::text[], 'null', policy) FROM (VALUES ('a text collate=utf16_bin; b text collate=gbk_bin; c text collate=utf32_bin; d text collate=koi8r_bin',
	'{"bytes \\x004100000042", "bytes \\xd6d000", "bytes \\x0000000000000041", "bytes \\x00f0"}')) v (spec, vals), unnest('{strip,replace}'::text[]) policy;
SELECT put('a text collate=utf16_bin', 'nul', ARRAY['bytes \x00410000']);
TABLE nul;

-- Columns: characters, not bytes, are what varchar(n) counts.
SELECT default_types('a varchar(5) collate=gbk_bin; b char(7) collate=gb18030_bin; c varchar(3) collate=utf16_bin; d varchar(4) collate=utf32_bin; e varchar(6) collate=ujis_bin; f enum(x''d6d0'') collate=gbk_bin');
CREATE TABLE c (a varchar(2), b char, e text, s text[]);
SELECT put('a varchar(2) collate=utf16_bin; e set(x''00e9'',x''0078'') collate=utf16_bin; s set(x''00e9'',x''0078'') collate=utf16_bin', 'c',
	ARRAY['bytes \xd83dde00d83dde00', 'label 3', 'label 3']);
SELECT put('a varchar(2) collate=utf16_bin; e set(x''00e9'',x''0078'') collate=utf16_bin; s set(x''00e9'',x''0078'') collate=utf16_bin', 'c',
	ARRAY['bytes \x0041', 'bytes \x00e9002c0078', 'bytes \x00e9002c0078']);
TABLE c;
-- Labels, too, are counted in characters.
CREATE TABLE l (a varchar(3), b varchar(7));
SELECT complaints('a enum(x''00e900e900e9'') collate=utf16_bin; b set(x''00e900e900e9'',x''0078'') collate=utf16_bin', 'l');
ALTER TABLE l ALTER a TYPE varchar(2), ALTER b TYPE varchar(4);
SELECT complaints('a enum(x''00e900e900e9'') collate=utf16_bin; b set(x''00e900e900e9'',x''0078'') collate=utf16_bin', 'l');

SET client_min_messages = warning;
DROP SCHEMA test_charsets CASCADE;
