/*
 * preflight.h
 *		Private to wire/: the parts of preflight.
 *
 *	   preflight.c			settings of the source
 *	   preflightrights.c	what the account may do
 *	   preflighttables.c	engines, keys, columns, cascades
 */
#ifndef CAPSTAN_WIRE_PREFLIGHT_H
#define CAPSTAN_WIRE_PREFLIGHT_H

#include "wire/internal.h"

typedef struct Preflight
{
	SourceConn *conn;
	const SourceOptions *options;
	List	   *tables;			/* SourceTableInfo * */
	List	   *schemas;		/* char *, distinct, in order */
	bool		with_copy;
	bool		one_cut;		/* snapshot => 'consistent' */
	int			nvariables;
	char	  **names;			/* global variables of the source */
	char	  **values;
	char	   *account;		/* 'user'@'host', quoted for GRANT */
	bool		is_replica;
	bool		replica_known;	/* could that be found out? */
	List	   *checks;			/* PreflightCheck * */
} Preflight;

/* NULL: the source has no such variable. */
extern const char *capstan_preflight_variable(Preflight *pf, const char *name);
extern bool capstan_preflight_variable_is_on(Preflight *pf, const char *name);
extern void capstan_preflight_add(Preflight *pf, const char *name, CheckStatus status, char *found, char *wanted, char *fix,
								  int sqlerrcode);

extern void capstan_preflight_rights(Preflight *pf);
extern void capstan_preflight_tables(Preflight *pf);

#endif
