--
-- Options of servers and user mappings: each one known, checked when it is set, wrong ones
-- refused with the way out.
--
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS capstan;
RESET client_min_messages;

-- everything at once
CREATE SERVER opt_full FOREIGN DATA WRAPPER capstan
  OPTIONS (host 'db1, db2:3307,[2001:db8::1]:3308,192.0.2.7,/run/mysqld/mysqld.sock', port '3306', ssl_mode 'verify_identity', ssl_ca '/etc/ssl/my-ca.pem',
           ssl_cert '/etc/ssl/client.pem', ssl_key '/etc/ssl/client.key', connect_timeout '5', read_timeout '30');
CREATE USER MAPPING FOR CURRENT_USER SERVER opt_full OPTIONS (user 'capstan', password 'secret');
-- nothing at all: the defaults
CREATE SERVER opt_none FOREIGN DATA WRAPPER capstan;
CREATE USER MAPPING FOR PUBLIC SERVER opt_none OPTIONS (user 'capstan', password '');
ALTER SERVER opt_none OPTIONS (ADD port '3307', ADD ssl_mode 'required');
ALTER SERVER opt_none OPTIONS (SET port '3308', DROP ssl_mode);
SELECT srvname, srvoptions FROM pg_foreign_server WHERE srvname LIKE 'opt\_%' ORDER BY 1;

-- options that do not exist
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (hots 'db1');
\echo SQLSTATE :SQLSTATE
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (dbname 'shop');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (sslmode 'required');
-- options in the wrong place; the value of a password is not repeated
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (host 'db1', password 'secret');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (user 'capstan');
CREATE USER MAPPING FOR CURRENT_USER SERVER opt_none OPTIONS (user 'capstan', host 'db1');
CREATE USER MAPPING FOR CURRENT_USER SERVER opt_none OPTIONS (username 'capstan');
CREATE FOREIGN DATA WRAPPER opt_wrapper VALIDATOR capstan.capstan_fdw_validator OPTIONS (host 'db1');
-- values that cannot be
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (port 'mysql');
\echo SQLSTATE :SQLSTATE
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (port '0');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (port '65536');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (port '99999999999999999999');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (port '3306 ');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (port '');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (ssl_mode 'on');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (ssl_mode 'REQUIRED');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (ssl_ca 'my-ca.pem');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (connect_timeout '0');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (read_timeout '-1');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (host '');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (host 'db1,,db2');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (host 'db1:port');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (host 'db1 db2');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (host '2001:db8::1');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (host '[2001:db8::1');
CREATE SERVER opt_bad FOREIGN DATA WRAPPER capstan OPTIONS (host 'db1/shop');
CREATE USER MAPPING FOR CURRENT_USER SERVER opt_none OPTIONS (user '');

-- files of the server's machine are not for everybody
CREATE ROLE regress_capstan_options;
GRANT USAGE ON FOREIGN DATA WRAPPER capstan TO regress_capstan_options;
SET ROLE regress_capstan_options;
CREATE SERVER opt_file FOREIGN DATA WRAPPER capstan OPTIONS (host 'db1', ssl_key '/etc/shadow');
\echo SQLSTATE :SQLSTATE
CREATE SERVER opt_file FOREIGN DATA WRAPPER capstan OPTIONS (host 'db1', ssl_mode 'required');
ALTER SERVER opt_file OPTIONS (ADD ssl_ca '/etc/ssl/my-ca.pem');
RESET ROLE;
GRANT pg_read_server_files TO regress_capstan_options;
SET ROLE regress_capstan_options;
ALTER SERVER opt_file OPTIONS (ADD ssl_ca '/etc/ssl/my-ca.pem');
RESET ROLE;

-- foreign tables are not served
CREATE FOREIGN TABLE opt_table (id int) SERVER opt_none OPTIONS (table_name 't');
\echo SQLSTATE :SQLSTATE
CREATE FOREIGN TABLE opt_table (id int) SERVER opt_none;
SELECT * FROM opt_table;

-- passwords are where Postgres keeps them, and shown to nobody else
SET ROLE regress_capstan_options;
SELECT umoptions FROM pg_user_mappings WHERE srvname = 'opt_full';
RESET ROLE;

DROP FOREIGN TABLE opt_table;
DROP SERVER opt_full CASCADE;
DROP SERVER opt_none CASCADE;
DROP SERVER opt_file;
REVOKE ALL ON FOREIGN DATA WRAPPER capstan FROM regress_capstan_options;
DROP ROLE regress_capstan_options;
