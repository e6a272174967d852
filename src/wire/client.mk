# Either of the two client libraries: Oracle's libmysqlclient or MariaDB Connector/C. Included by makefiles that link it;
# MYSQL_CONFIG chooses. Sets MYSQL_INCLUDE and MYSQL_LIBS, empty where none is installed.

MYSQL_CONFIG ?= $(firstword $(shell command -v mysql_config mariadb_config 2>/dev/null))
ifneq ($(MYSQL_CONFIG),)
MYSQL_INCLUDE := $(shell $(MYSQL_CONFIG) --include)
MYSQL_LIBS := $(shell $(MYSQL_CONFIG) --libs)
else
MYSQL_PC := $(firstword $(foreach m,mysqlclient libmariadb,$(shell pkg-config --exists $(m) 2>/dev/null && echo $(m))))
ifneq ($(MYSQL_PC),)
MYSQL_INCLUDE := $(shell pkg-config --cflags-only-I $(MYSQL_PC))
MYSQL_LIBS := $(shell pkg-config --libs $(MYSQL_PC))
endif
endif
