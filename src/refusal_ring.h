/*-------------------------------------------------------------------------
 *
 * refusal_ring.h
 *	  The last refusals of the whole server, in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SIFT_REFUSAL_RING_H
#define SIFT_REFUSAL_RING_H

#include "datatype/timestamp.h"
#include "ledger.h"

/* Refusals that are kept, and contexts that are named with each. */
#define REFUSAL_RING_SIZE		100
#define REFUSAL_TOP_CONTEXTS	5

/* A name of a context, clipped, and the bytes of all contexts of that name. */
typedef struct ContextBytes
{
	char		name[NAMEDATALEN];
	int64		bytes;
} ContextBytes;

typedef struct RefusalRecord
{
	int64		number;			/* counted from 1 over the whole server; 0: free */
	TimestampTz at;
	int			pid;
	Oid			userid;
	Oid			dbid;
	int64		queryid;		/* 0 if not known */
	char		context_name[NAMEDATALEN];	/* "" if not known */
	SiftKind	kind;
	int64		requested_bytes;
	int64		charged_bytes;
	int64		limit_bytes;	/* -1 without one */
	int			ntop;
	ContextBytes top[REFUSAL_TOP_CONTEXTS];	/* the largest first */
} RefusalRecord;

extern void refusal_ring_request(void);
extern void refusal_ring_startup(void);
extern bool refusal_ring_exists(void);
extern void refusal_ring_add(SiftKind kind, Size requested, const char *context_name);
extern void refusal_ring_amend(const char *context_name, int64 requested);
extern int64 refusal_ring_newest(void);
extern bool refusal_ring_read(int64 number, RefusalRecord *record);

#endif							/* SIFT_REFUSAL_RING_H */
