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
#include "top_contexts.h"

/* Refusals that are kept. */
#define REFUSAL_RING_SIZE		100

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
	TopContexts top;
} RefusalRecord;

extern void refusal_ring_request(void);
extern void refusal_ring_startup(void);
extern bool refusal_ring_exists(void);
extern void refusal_ring_add(SiftKind kind, Size requested, const char *context_name);
extern void refusal_ring_amend(const char *context_name, int64 requested);
extern int64 refusal_ring_newest(void);
extern bool refusal_ring_read(int64 number, RefusalRecord *record);

#endif							/* SIFT_REFUSAL_RING_H */
