/*
 * serveroptions.h
 *		How to reach a pipeline's source: foreign server and user mapping made into SourceOptions.
 *
 * Called by sqlapi/ (as the calling user) and by the workers (as the pipeline's owner),
 * in a transaction.
 */
#ifndef CAPSTAN_SERVEROPTIONS_H
#define CAPSTAN_SERVEROPTIONS_H

#include "wire/wire.h"

/*
 * Palloc'd in the current context.  Raises 42704 for an unknown server or a missing mapping, 42809 for a server of another
 * wrapper, 42501 without USAGE on the server, 28000 for a mapping without user, or without password
 * unless the user is a superuser.
 */
extern SourceOptions *capstan_server_options(const char *server_name, Oid userid);

/* 'verify_ca' ...; false if it is none. */
extern bool capstan_ssl_mode_parse(const char *text, SourceSslMode *mode);

#define CAPSTAN_DEFAULT_HOST "127.0.0.1"
#define CAPSTAN_DEFAULT_PORT 3306
#define CAPSTAN_DEFAULT_CONNECT_TIMEOUT 10
#define CAPSTAN_DEFAULT_READ_TIMEOUT 60

#endif
