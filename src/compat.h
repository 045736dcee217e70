/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between PostgreSQL 15, 17 and 18 that can live in one
 *	  place.
 *
 * The largest one: since 16 the memory context methods "alloc" and "realloc"
 * are given the caller's flags, and "free_p", "realloc" and the chunk methods
 * are reached through the chunk's header and no longer through its context.
 * The METHOD_ macros below hide the parameter lists; a method's body uses
 * "context", "pointer", "size" and METHOD_FLAGS.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_COMPAT_H
#define SIFT_COMPAT_H

#if PG_VERSION_NUM < 150000 || \
	(PG_VERSION_NUM >= 160000 && PG_VERSION_NUM < 170000) || \
	PG_VERSION_NUM >= 190000
#error "Sift supports PostgreSQL 15, 17 and 18"
#endif

#include "access/htup_details.h"
#include "miscadmin.h"
#include "nodes/memnodes.h"
#include "storage/proc.h"
#include "utils/backend_status.h"
#include "utils/memutils.h"

/* EnableQueryId() */
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#include "utils/memutils_internal.h"
#else
#include "utils/queryjumble.h"
#endif

/*
 * Memory context methods.
 */
#if PG_VERSION_NUM >= 160000

#define METHOD_ALLOC(name)		void *name(MemoryContext context, Size size, int flags)
#define METHOD_FREE(name)		void name(void *pointer)
#define METHOD_REALLOC(name)	void *name(void *pointer, Size size, int flags)
#define METHOD_CHUNK_SPACE(name) Size name(void *pointer)
#define METHOD_FLAGS			flags

#define method_alloc(methods, context, size, flags) \
	(methods)->alloc(context, size, flags)
#define method_free(method, context, chunk)	method(chunk)
#define method_realloc(method, context, chunk, size, flags)	method(chunk, size, flags)

/* To be called by alloc and realloc, which the server asks to check sizes. */
#define check_request_size(context, size, flags) \
	MemoryContextCheckSize(context, size, flags)

/* Answers a request that failed: raises, or NULL where flags ask for that. */
#define allocation_failure(context, size, flags) \
	MemoryContextAllocationFailure(context, size, flags)

#else							/* 15: mcxt.c checks sizes and raises */

#define METHOD_ALLOC(name)		void *name(MemoryContext context, Size size)
#define METHOD_FREE(name)		void name(MemoryContext context, void *pointer)
#define METHOD_REALLOC(name)	void *name(MemoryContext context, void *pointer, Size size)
#define METHOD_CHUNK_SPACE(name) Size name(MemoryContext context, void *pointer)
#define METHOD_FLAGS			0

#define method_alloc(methods, context, size, flags) \
	(methods)->alloc(context, size)
#define method_free(method, context, chunk)	method(context, chunk)
#define method_realloc(method, context, chunk, size, flags)	method(context, chunk, size)
#define check_request_size(context, size, flags)	((void) 0)
#define allocation_failure(context, size, flags)	NULL

#endif

/*
 * Whether a method can see MCXT_ALLOC_NO_OOM.  Where it cannot, a refusal
 * learns only later whether it becomes an error (see report.c).
 */
#define METHOD_SEES_FLAGS		(PG_VERSION_NUM >= 160000)

/* Node tags that MemoryContextIsValid() accepts. */
#define ROW_CONTEXT_TAG			T_GenerationContext
#if PG_VERSION_NUM >= 170000
#define BATCH_CONTEXT_TAG		T_BumpContext
#else
#define BATCH_CONTEXT_TAG		T_GenerationContext
#endif

/*
 * libpq/libpq.h declares it, and needs headers of Kerberos that are not
 * installed with the server's.
 */
extern bool pq_is_reading_msg(void);

/* The type of context whose chunks have no headers. */
#if PG_VERSION_NUM >= 170000
#define HAVE_BUMP_CONTEXT		1
#endif

/* heap_form_minimal_tuple(), which writes to neither of its arrays. */
#if PG_VERSION_NUM >= 180000
#define form_minimal_tuple(desc, values, isnull) \
	heap_form_minimal_tuple(desc, values, isnull, 0)
#else
#define form_minimal_tuple(desc, values, isnull) \
	heap_form_minimal_tuple(desc, unconstify(Datum *, values), unconstify(bool *, isnull))
#endif

/* EXPLAIN has options of extensions. */
#if PG_VERSION_NUM >= 180000
#define HAVE_EXPLAIN_OPTIONS	1
#endif

/* Parameters and arguments of ExecutorRun_hook. */
#if PG_VERSION_NUM >= 180000
#define RUN_PARAMETERS			QueryDesc *query, ScanDirection direction, uint64 count
#define RUN_ARGUMENTS			query, direction, count
#else
#define RUN_PARAMETERS			QueryDesc *query, ScanDirection direction, uint64 count, bool once
#define RUN_ARGUMENTS			query, direction, count, once
#endif

/* Level of TopMemoryContext in pg_backend_memory_contexts. */
#define TOP_CONTEXT_LEVEL		(PG_VERSION_NUM >= 180000 ? 1 : 0)

/* Index of this process among those that have a PGPROC. */
#if PG_VERSION_NUM >= 170000
#define my_proc_index()			((int) MyProcNumber)
#else
#define my_proc_index()			(MyProc->pgprocno)
#endif

/* The i-th (from 1) entry of the table behind pg_stat_activity. */
#if PG_VERSION_NUM >= 160000
#define backend_status_entry(i)	(&pgstat_get_local_beentry_by_index(i)->backendStatus)
#else
#define backend_status_entry(i)	(&pgstat_fetch_stat_local_beentry(i)->backendStatus)
#endif

#endif							/* SIFT_COMPAT_H */
