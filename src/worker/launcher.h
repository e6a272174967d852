/*
 * launcher.h
 *		The launcher's entry point, for _PG_init.
 */
#ifndef CAPSTAN_LAUNCHER_H
#define CAPSTAN_LAUNCHER_H

extern PGDLLEXPORT void capstan_launcher_main(Datum main_arg);

#endif
