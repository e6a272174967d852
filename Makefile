# capstan: replicates MySQL into PostgreSQL, exactly once.
#
#   make            build            (PGXS; needs pg_config and a MySQL client library)
#   make install    install into the server that pg_config belongs to
#   make installcheck   pg_regress suites against a running, installed server; needs no MySQL
#   make deps       install what this Debian machine lacks (apt)
#   make check      everything: build, rules of the house, unit tests, pg_regress, TAP
#   make check-matrix   the same suites on PostgreSQL 18 with Oracle's client library
#   make soak       random kills under load, for as long as KILLS=n says (50), then one table of ROWS=n rows (100 million)
#   make scale      snapshots of many and of large tables, with figures
#   make bench      speed, side by side with COPY, mysql_fdw, pgloader and native logical replication; SCENARIOS='copy stream', ROWS=n, REPEAT=n
#   make fuzz       bytes that nobody sent: each fuzzer for FUZZ_SECONDS=n (300)
#   make demo       a live MySQL appears in Postgres, in ./demo.run; demo-stop removes it
#
# PG_CONFIG chooses the PostgreSQL, MYSQL_CONFIG the client library.
#
# This file is read in one of two ways. The goals in SCRIPT_GOALS are scripts that
# first install what is missing and then call make again; they must work where there
# is no pg_config yet, and PGXS has a "check" of its own. So PGXS is included only
# when none of them is asked for.

SCRIPT_GOALS = bench check check-matrix deps demo demo-stop fuzz scale soak

ifneq ($(filter $(SCRIPT_GOALS),$(MAKECMDGOALS)),)

.PHONY: $(SCRIPT_GOALS) all install installcheck clean

deps:
	test/bin/deps

bench check check-matrix fuzz scale soak:
	test/bin/$@

demo demo-stop:
	test/demo/$@

# Asked for together with one of the above.
all install installcheck clean:
	+$(MAKE) --no-print-directory $@

.NOTPARALLEL:

else

MODULE_big = capstan
# memory_malloc.c gives base/ its memory in builds without a server (test/unit).
OBJS = $(patsubst %.c,%.o,$(filter-out src/base/memory_malloc.c,$(sort $(wildcard src/*.c src/*/*.c))))
EXTENSION = capstan
DATA = capstan--1.0.sql
PGFILEDESC = "capstan - MySQL replication into PostgreSQL"
REGRESS = $(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql)))
EXTRA_CLEAN = build $(OBJS:.o=.d)

PG_CONFIG ?= pg_config
# With the headers: Debian has pgxs.mk in a package of clients.
PGXS := $(and $(wildcard $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)/postgres.h), \
	$(wildcard $(shell $(PG_CONFIG) --pgxs 2>/dev/null)))

include src/wire/client.mk

# Headers that are not ours count as system headers, so that -Wextra speaks of our
# code alone. -MMD writes a .d beside each object: a changed header rebuilds.
PG_CPPFLAGS = -Isrc -MMD -MP $(patsubst -I%,-isystem %,$(MYSQL_INCLUDE)) \
	-isystem $(shell $(PG_CONFIG) --includedir-server 2>/dev/null)
# An fmgr or callback signature has parameters that not every function needs.
PG_CFLAGS = -std=gnu11 -Wall -Wextra -Wno-unused-parameter -fvisibility=hidden
# With Connector/C its TLS objects are asked for unread data and for the certificate.
SHLIB_LINK = $(filter -L% -lmysqlclient% -lmariadb%,$(MYSQL_LIBS)) \
	$(if $(filter -lmariadb%,$(MYSQL_LIBS)),-lssl -lcrypto) -lzstd -lz

ifneq ($(PGXS),)

# Bitcode for JIT inlining is of no use here and would want clang.
override with_llvm = no
include $(PGXS)

-include $(wildcard $(OBJS:.o=.d))

# Every header compiles alone: those of the pure half without a server, the others
# after postgres.h.
PURE_HEADERS = $(wildcard src/row.h src/base/*.h src/binlog/*.h)
SERVER_HEADERS = $(filter-out $(PURE_HEADERS),$(wildcard src/*.h src/*/*.h))

.PHONY: check-headers client-library
check-headers:
	@for h in $(PURE_HEADERS); do \
		$(CC) $(CFLAGS) -Isrc -fsyntax-only -x c $$h || exit 1; done
	@for h in $(SERVER_HEADERS); do \
		$(CC) $(CFLAGS) $(filter-out -MMD -MP,$(CPPFLAGS)) -include postgres.h -fsyntax-only -x c $$h || exit 1; done

client-library:
	@echo '$(or $(MYSQL_CONFIG),$(MYSQL_PC)) $(filter -lmysqlclient% -lmariadb%,$(MYSQL_LIBS))'

ifeq ($(MYSQL_LIBS),)
$(OBJS): no-client-library
.PHONY: no-client-library
no-client-library:
	@echo 'No MySQL client library found (mysql_config, mariadb_config, pkg-config).' >&2
	@echo 'On Debian "make deps" installs one, or set MYSQL_CONFIG.' >&2
	@exit 1
endif

else

.PHONY: all
all:
.DEFAULT all:
	@echo 'PostgreSQL server headers not found ($(PG_CONFIG) --includedir-server).' >&2
	@echo 'On Debian "make deps" installs them, or set PG_CONFIG.' >&2
	@exit 1

endif
endif
